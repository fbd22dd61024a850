// The page's data as `brokerscope report --format json` writes it (crates/page/src/lib.rs). The golden of the Rust
// side is checked against these types by `npm run check`. Times are nanoseconds after the recording's origin.

import type { Comparison } from "./comparison";

export interface Page {
  format: string;
  version: number;
  written_by: string;
  recordings: Recording[];
  comparison?: Comparison;
}

export interface Recording {
  about: { name: string; facts: string[][]; plan: string[][] };
  origin_ns: string;
  end_ns: number;
  bucket_ns: number;
  buckets: number;
  story: Story;
  latency: { bounds_ns: number[]; apis: Api[]; unanswered: number };
  slow: Slow;
  advice?: Advice;
  requests: Detail[];
  /** What the waterfalls show, each once: requests name them by number. */
  spans: Span[];
  /** Buckets in one cell of a partition or a file. */
  coarse_buckets: number;
  partitions: { topic: string | null; partition: number; cells: number[][] }[];
  thread_states: string[];
  threads: { tid: number | null; thread: string; cells: number[][] }[];
  devices: { device: string; cells: number[][] }[];
  figures: Figure[];
  commits: Commit[];
  flames: { buckets_each: number; frames: string[]; on_cpu: Stacks; off_cpu: Stacks };
  files: { file: string | null; kind: string; device: string | null; cells: number[][] }[];
  losses: { start_ns: number; end_ns: number; kind: string; count: number; detail: string }[];
  loss_totals: Record<string, number>;
  joins: (string | number)[][];
  unobservable: { what: string; why: string }[];
  notes: string[];
}

export interface Why {
  cause: string;
  root: string | null;
  text: string;
}

export interface Story {
  headline: string;
  why: Why[];
  roots: Why[];
  change: Why[];
  speeds: string[];
}

export interface Api {
  api: string;
  held: boolean;
  requests: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  p999_ns: number;
  max_ns: number;
  cells: number[];
}

export interface Root {
  root: string;
  cause: string;
  text: string;
  requests: number;
  time_ns: number;
  slowest_ns: number;
  start_ns: number | null;
  end_ns: number | null;
}

export interface Slow {
  slower_than_ns: number;
  requests: number;
  slow: number;
  not_judged: (string | number)[][];
  stages: string[];
  causes: string[];
  by_cause: { cause: string; requests: number; time_ns: number; advice: string[] }[];
  by_root: Root[];
  more_roots: number;
  stage_cells: number[][];
  cause_cells: number[][];
  names: string[];
  rows: number[][];
  row: string[];
}

/** What a rule advises. */
export interface Given {
  rank: number;
  rule: string;
  layer: string;
  cost_ns: number | null;
  cost_requests: number | null;
  evidence: string;
  changes: { setting: string; old: string; new: string; target: { of: string; name: string; value: string } | null; together: boolean }[];
  effect: string;
  risk: string;
  verify: string;
  condition: string;
  source: string;
}

export interface Advice {
  window_ns: number | null;
  slow_requests: number | null;
  slow_ns: number | null;
  /** The layer with the dearest first. */
  layers: { layer: string; given: Given[] }[];
  missing: { input: string; why: string; rules: string[] }[];
  silent: { rule: string; layer: string; why: string }[];
}

export interface Span {
  kind: string;
  start_ns: number;
  end_ns: number;
  parted_ns: number | null;
  label: string;
  text: string;
}

export interface Proof {
  kind: string;
  start_ns: number;
  end_ns: number;
  tid: number | null;
  thread: string | null;
  text: string;
  /** Of a wait for a lock: who waited; `tid` and `thread` are then of who held it. */
  waiter_tid: number | null;
  waiter: string | null;
}

export interface Lane {
  tid: number;
  thread: string;
  in_evidence: boolean;
  /** Numbers of the recording's spans. */
  spans: number[];
}

export interface Commit {
  start_ns: number;
  end_ns: number;
  device: string;
  transaction: number;
  phases: (string | number)[][];
  blocks: number | null;
}

export interface Detail {
  id: string;
  arrival_ns: number;
  arrival_end_ns: number;
  response_ns: number | null;
  end_ns: number;
  api: string;
  api_version: number;
  correlation_id: number;
  client_id: string | null;
  client: string;
  broker: string;
  request_bytes: number;
  acks: number | null;
  partitions: (string | number)[][];
  stages: number[];
  /** The number of the stage, its start and its end, in the order of time. */
  course: number[][];
  cause: string;
  chain: string[];
  root: string;
  confidence: string;
  partition: string | null;
  evidence: Proof[];
  advice: string[];
  losses: string[];
  doubts: { stage: string; what: string; tells: string }[];
  threads: Lane[];
  commits: Commit[];
  block_ios: number[];
  others: number[];
  cut: boolean;
}

export interface Figure {
  scope: string;
  name: string;
  metric: string;
  cells: number[][];
}

export interface Stacks {
  stacks: number[][];
  cells: number[][][];
  left_out_us: number;
}

/** A slow request, as much as a row of `slow.rows` tells. */
export interface Row {
  arrival: number;
  latency: number;
  correlation: number;
  api: string;
  client: string;
  partition: string;
  cause: string;
  root: string;
  confidence: string;
  id: string;
}

/** The rows of a recording, in the order of `slow.row`. */
export function rowsOf(recording: Recording): Row[] {
  const { names, causes, rows } = recording.slow;
  const name = (at: number | undefined): string => names[at ?? -1] ?? "";
  return rows.map((row) => ({
    arrival: row[0] ?? 0,
    latency: row[1] ?? 0,
    correlation: row[2] ?? 0,
    api: name(row[3]),
    client: name(row[4]),
    partition: name(row[5]),
    cause: causes[row[6] ?? -1] ?? "",
    root: name(row[7]),
    confidence: name(row[8]),
    id: `${row[2] ?? 0}-${row[0] ?? 0}`,
  }));
}

/** The stretches of these numbers. */
export function spansOf(recording: Recording, numbers: number[]): Span[] {
  return numbers.flatMap((number) => recording.spans[number] ?? []);
}

/** Reads the data that is in the page. */
export function read(): Page {
  const element = document.getElementById("page-data");
  const page = JSON.parse(element?.textContent ?? "{}") as Page;
  if (page.format !== "brokerscope-page" || page.version !== 2) {
    throw new Error("this page's data is not of the version that its script reads");
  }
  return page;
}
