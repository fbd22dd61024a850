// The page's data as `brokerscope report --format json` writes it. Generated from the structs of crates/page and crates/report
// by crates/page/tests/typescript.rs: BLESS=1 cargo test -p page. Times are nanoseconds after the recording's origin.

import type { Comparison } from "./comparison";

/** Everything a page shows. */
export interface Page {
  /** Always `FORMAT`. */
  format: string;
  /** Always `VERSION`. */
  version: number;
  /** The program that wrote it. */
  written_by: string;
  /** The recordings. */
  recordings: Recording[];
  /** The comparison; the field is absent without one. */
  comparison?: Comparison;
}

/** One recording. Times are nanoseconds after `origin_ns`; cells start with their bucket of time. */
export interface Recording {
  /** Facts about it. */
  about: RecordingInfo;
  /** Start of the axis, UTC nanoseconds, as text: a JavaScript number cannot hold it. */
  origin_ns: string;
  /** Time of the last event. */
  end_ns: number;
  /** Width of a bucket of time. */
  bucket_ns: number;
  /** Number of buckets. */
  buckets: number;
  /** Summary in sentences. */
  story: Story;
  /** All requests. */
  latency: Latency;
  /** Slow requests. */
  slow: Slow;
  /** What to change; the field is absent if no rules were evaluated. */
  advice?: Advice;
  /** Some slow requests in detail, the slowest first. */
  requests: Detail[];
  /** Spans of these requests, each once: requests refer to them by number. */
  spans: Span[];
  /** Buckets per cell of a partition or a file. */
  coarse_buckets: number;
  /** Topics × partitions. */
  partitions: Partition[];
  /** Names of the states in threads' cells. */
  thread_states: string[];
  /** Threads. */
  threads: Thread[];
  /** Block devices. */
  devices: Device[];
  /** Figures of the host. */
  figures: Figure[];
  /** The longest commits of journals. */
  commits: Commit[];
  /** Flame graphs. */
  flames: Flame;
  /** Files. */
  files: File[];
  /** Losses. */
  losses: Loss[];
  /** Totals of losses by kind. */
  loss_totals: Record<string, number>;
  /** Joins of produce partitions with their writes. */
  joins: ((number | string)[])[];
  /** What could not be observed, and why. */
  unobservable: Unobservable[];
  /** Further notes. */
  notes: string[];
}

/** Something that no source watched. */
export interface Unobservable {
  /** What could not be observed. */
  what: string;
  /** Why, and what would change that. */
  why: string;
}

/** One thread. */
export interface Thread {
  /** Its id; `None` for the sum of all other threads. */
  tid: number | null;
  /** Its name. */
  thread: string;
  /** By bucket: the bucket, and microseconds in each of `ThreadState::ALL`. */
  cells: number[][];
}

/** The sentences. */
export interface Story {
  /** What was slow, in one sentence. */
  headline: string;
  /** Why, one sentence per cause. */
  why: Why[];
  /** The root events that took the most time. */
  roots: Why[];
  /** What to change: the cause and the advice. */
  change: Why[];
  /** Latencies of requests, by API. */
  speeds: string[];
}

/** A sentence and the cause it is about. */
export interface Why {
  /** The cause. */
  cause: string;
  /** The root, if it is about one. */
  root: string | null;
  /** The sentence. */
  text: string;
}

/** A span of time. */
export interface Span {
  /** The name of a kind of evidence, or `throttle`, `reclaim`, `call`, or `idle`: a wait for work. */
  kind: string;
  /** Its start, nanoseconds after the page's origin. */
  start_ns: number;
  /** Its end. */
  end_ns: number;
  /** End of a part that is shown separately, such as the wait of a block request before the driver had it. */
  parted_ns: number | null;
  /** A word or two. */
  label: string;
  /** Details. */
  text: string;
}

/** The slow requests, over time and one by one. */
export interface Slow {
  /** Latency from which a request counts as slow. */
  slower_than_ns: number;
  /** Requests seen. */
  requests: number;
  /** Slow requests with a verdict. */
  slow: number;
  /** Slow requests of APIs without verdicts. */
  not_judged: ((number | string)[])[];
  /** The stages' names, in order. */
  stages: string[];
  /** The causes' names. */
  causes: string[];
  /** Totals by cause, the most time first. */
  by_cause: Cause[];
  /** Roots, the most time first. */
  by_root: Root[];
  /** Number of roots that are not shown. */
  more_roots: number;
  /** Time of slow requests by the bucket of their arrival: the bucket, then microseconds by stage. */
  stage_cells: number[][];
  /** Like `stage_cells`, by cause. */
  cause_cells: number[][];
  /** Texts that the rows refer to by number. */
  names: string[];
  /** The rows, slowest first; see `ROW`. */
  rows: number[][];
  /** Names of a row's numbers. */
  row: string[];
}

/** One root event. */
export interface Root {
  /** Its id. */
  root: string;
  /** Its cause. */
  cause: string;
  /** Description. */
  text: string;
  /** Number of requests that it slowed. */
  requests: number;
  /** Their total latency. */
  time_ns: number;
  /** The slowest of them. */
  slowest_ns: number;
  /** Their first arrival, if known. */
  start_ns: number | null;
  /** Their last end. */
  end_ns: number | null;
}

/** The requests of one cause. */
export interface Cause {
  /** Its name. */
  cause: string;
  /** Number of requests. */
  requests: number;
  /** Their total latency. */
  time_ns: number;
  /** What to change. */
  advice: string[];
}

/** Facts about a recording besides its events. */
export interface RecordingInfo {
  /** Its name. */
  name: string;
  /** Facts worth a line: the host, the broker, its settings. */
  facts: string[][];
  /** The plan: what was to be observed, and whether it was. */
  plan: string[][];
}

/** One partition. */
export interface Partition {
  /** Its topic, or the topic's id; `None` for the sum of all other partitions. */
  topic: string | null;
  /** Its number. */
  partition: number;
  /** By `COARSE` bucket of arrival: the bucket, requests, slow requests, bytes, and in microseconds their total latency and the longest. */
  cells: number[][];
}

/** A loss. */
export interface Loss {
  /** Start of the interval of the loss. */
  start_ns: number;
  /** End of the interval. */
  end_ns: number;
  /** Its kind. */
  kind: string;
  /** Number of lost events. */
  count: number;
  /** Details. */
  detail: string;
}

/** Latencies over time. */
export interface Latency {
  /** The upper bound of each level but the last, nanoseconds. */
  bounds_ns: number[];
  /** By API. */
  apis: Api[];
  /** Requests whose response was due but not seen. */
  unanswered: number;
}

/** One API. */
export interface Api {
  /** Kafka's name. */
  api: string;
  /** Whether the broker kept the requests on purpose: a long poll, a rebalance. */
  intended_wait: boolean;
  /** Number of answered requests. */
  requests: number;
  /** Median, nanoseconds. */
  p50_ns: number;
  /** 90th percentile. */
  p90_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** 99.9th percentile. */
  p999_ns: number;
  /** Maximum. */
  max_ns: number;
  /** Triples of bucket, level and count. */
  cells: number[];
}

/** Flame graphs, filtered by time. */
export interface Flame {
  /** Buckets of the axis per bucket of these. */
  buckets_each: number;
  /** Names of frames, which stacks refer to by number. */
  frames: string[];
  /** Time on the CPU: samples. */
  on_cpu: Stack;
  /** Time off it: intervals. */
  off_cpu: Stack;
}

/** The stacks of one state. */
export interface Stack {
  /** Numbers of frames, outermost first; the first is the threads' name. */
  stacks: number[][];
  /** For each stack, pairs of bucket and microseconds. */
  cells: number[][][];
  /** Microseconds in stacks that are not shown. */
  left_out_us: number;
}

/** One file. */
export interface File {
  /** Its name; `None` for the sum of all other files. */
  file: string | null;
  /** The kind of file. */
  kind: string;
  /** The device that holds it. */
  device: string | null;
  /** By `COARSE` bucket: the bucket, operations, bytes written, bytes read, bytes of these that came from the device, and in microseconds the operations' total time and the longest. */
  cells: number[][];
}

/** One figure of the host, about once a second. */
export interface Figure {
  /** Its scope. */
  scope: string;
  /** Its instance within the scope. */
  name: string;
  /** The figure, with its unit. */
  metric: string;
  /** Pairs of bucket and the mean in it. */
  cells: number[][];
}

/** The block requests of one device. */
export interface Device {
  /** Its name. */
  device: string;
  /** By bucket of issue: the bucket, reads, writes, flushes and others, bytes, and in microseconds the time in the device, the time before the device, and the longest time in the device. */
  cells: number[][];
}

/** A slow request. Times are nanoseconds after the page's origin; spans are numbers of the recording's spans. */
export interface Detail {
  /** Id in links. */
  id: string;
  /** First byte of the request. */
  arrival_ns: number;
  /** Its last byte. */
  arrival_end_ns: number;
  /** First byte of the response. */
  response_ns: number | null;
  /** Its last byte. */
  end_ns: number;
  /** Kafka's name for the API. */
  api: string;
  /** Its version. */
  api_version: number;
  /** The client's correlation id. */
  correlation_id: number;
  /** The client's id. */
  client_id: string | null;
  /** The client's end of the connection. */
  client: string;
  /** The broker's end. */
  broker: string;
  /** Bytes of its frame. */
  request_bytes: number;
  /** Produce: 0, 1 or -1. */
  acks: number | null;
  /** Its partitions, named like the broker's directories, with the bytes of each. */
  partitions: ((number | string)[])[];
  /** Nanoseconds in each stage, in their order. */
  stages: number[];
  /** The stages in order of time: the number of the stage, its start and its end. */
  stage_spans: number[][];
  /** The cause. */
  cause: string;
  /** The chain to it, nearest first. */
  chain: string[];
  /** The root's id. */
  root: string;
  /** `exact`, `strong` or `weak`. */
  confidence: string;
  /** The partition on which the time was lost. */
  partition: string | null;
  /** The evidence of the verdict, in the order of the chain. */
  evidence: Proof[];
  /** What to change. */
  advice: string[];
  /** Losses near it. */
  losses: string[];
  /** What could not be decided, and what would have shown it. */
  doubts: Open[];
  /** Threads and what they did meanwhile: those of the evidence first, in its order. */
  threads: Lane[];
  /** Commits of journals. */
  commits: Commit[];
  /** Requests to devices. */
  block_ios: number[];
  /** JVM pauses, and calls of kernel functions by threads that are not the broker's. */
  others: number[];
  /** Whether some surrounding events were dropped, or are not shown, because of a limit. */
  cut: boolean;
}

/** A piece of evidence. */
export interface Proof {
  /** Its kind, as `explain` names it. */
  kind: string;
  /** Its start. */
  start_ns: number;
  /** Its end. */
  end_ns: number;
  /** The thread; for a wait for a lock, its holder. */
  tid: number | null;
  /** Its name. */
  thread: string | null;
  /** A sentence. */
  text: string;
  /** For a wait for a lock: the thread that waited. */
  waiter_tid: number | null;
  /** Its name. */
  waiter: string | null;
}

/** Something that could not be decided. */
export interface Open {
  /** The stage that it is about. */
  stage: string;
  /** What is open. */
  what: string;
  /** What would have shown it. */
  tells: string;
}

/** One thread and what it did. */
export interface Lane {
  /** The thread. */
  tid: number;
  /** Its name. */
  thread: string;
  /** Whether the evidence names it. */
  in_evidence: boolean;
  /** What it did, by start. */
  spans: number[];
}

/** One commit of a journal; times are nanoseconds after the origin. */
export interface Commit {
  /** Its start. */
  start_ns: number;
  /** Its end. */
  end_ns: number;
  /** The device. */
  device: string;
  /** The transaction. */
  transaction: number;
  /** Its phases in order, milliseconds, if they were seen. */
  phases: ((number | string)[])[];
  /** Blocks it logged. */
  blocks: number | null;
}

/** Advice for the page. */
export interface Advice {
  /** Length of the watch; `None` if no requests were observed. */
  window_ns: number | null;
  /** Slow requests in that time. */
  slow_requests: number | null;
  /** Their total latency. */
  slow_ns: number | null;
  /** Advice by layer, the layer with the costliest finding first. */
  layers: Layer[];
  /** Unknown inputs. */
  missing: UnknownInput[];
  /** Rules that have nothing to advise. */
  silent: QuietRule[];
}

/** An input that is not known. */
export interface UnknownInput {
  /** Name of the input. */
  input: string;
  /** Why it is not known. */
  why: string;
  /** The rules that need it. */
  rules: string[];
}

/** A rule that does not fire. */
export interface QuietRule {
  /** The rule. */
  rule: string;
  /** Its layer. */
  layer: string;
  /** Why it does not fire. */
  why: string;
}

/** Advice on one layer. */
export interface Layer {
  /** Its name. */
  layer: string;
  /** Its advice, by rank. */
  recommendations: Recommendation[];
}

/** One rule's advice. */
export interface Recommendation {
  /** Rank by measured cost, from 1. */
  rank: number;
  /** The rule's name. */
  rule: string;
  /** The layer that its change applies to. */
  layer: string;
  /** Time it cost slow requests; `None` if not measured. */
  cost_ns: number | null;
  /** Number of these requests; `None` if not measured. */
  cost_requests: number | null;
  /** Observed evidence. */
  evidence: string;
  /** Settings to change, in the order to try them. */
  changes: Change[];
  /** Expected effect. */
  effect: string;
  /** Risk of the change. */
  risk: string;
  /** The command that shows whether it helped, and what to look at in its output. */
  verify: string;
  /** Condition under which the rule fires. */
  condition: string;
  /** Source of the condition and the advice. */
  source: string;
}

/** One setting. */
export interface Change {
  /** Its name. */
  setting: string;
  /** Current value. */
  old: string;
  /** Recommended value. */
  new: string;
  /** The change for programs; `None` if only a person can make it. */
  target: Target | null;
  /** Whether it helps only together with the change before it. */
  together: boolean;
  /** Relation to the changes before it: `and/or` (also helps alone), `and` (helps only together), `or` (excludes them). */
  combination: string;
}

/** A setting that a program can change. */
export interface Target {
  /** Where it is set. */
  of: string;
  /** Its name there. */
  name: string;
  /** Its new value. */
  value: string;
}
