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
  /** What was recorded. */
  recordings: Recording[];
  /** What was compared; the field is not there where nothing was. */
  comparison?: Comparison;
}

/** One recording. Times are nanoseconds after `origin_ns`; cells begin with their bucket of time. */
export interface Recording {
  /** What is known of it. */
  about: RecordingInfo;
  /** The axis' beginning, UTC nanoseconds, as text: a JavaScript number would not hold it. */
  origin_ns: string;
  /** When the last event was. */
  end_ns: number;
  /** The width of a bucket of time, and how many there are. */
  bucket_ns: number;
  /** How many buckets. */
  buckets: number;
  /** In sentences. */
  story: Story;
  /** All requests. */
  latency: Latency;
  /** The slow ones. */
  slow: Slow;
  /** What to change; the field is not there where no rule was asked. */
  advice?: Advice;
  /** Some of them in detail, the slowest first. */
  requests: Detail[];
  /** Stretches of time in them, each once: requests name them by number. */
  spans: Span[];
  /** Buckets in one cell of a partition or a file. */
  coarse_buckets: number;
  /** Topics × partitions. */
  partitions: Partition[];
  /** What a thread's cells count. */
  thread_states: string[];
  /** Threads. */
  threads: Thread[];
  /** Block devices. */
  devices: Device[];
  /** The host. */
  figures: Figure[];
  /** The longest commits of journals. */
  commits: Commit[];
  /** Flame graphs. */
  flames: Flame;
  /** Files. */
  files: File[];
  /** What was lost. */
  losses: Loss[];
  /** Totals of it. */
  loss_totals: Record<string, number>;
  /** How produce partitions found their writes. */
  joins: ((number | string)[])[];
  /** What could not be observed, and why. */
  unobservable: Unobservable[];
  /** What else is to be known. */
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
  /** Its id; none for all that are not told apart. */
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
  /** Why, one sentence a cause. */
  why: Why[];
  /** The root events that took the most time. */
  roots: Why[];
  /** What to change: the cause and the advice. */
  change: Why[];
  /** How fast requests were, by API. */
  speeds: string[];
}

/** A sentence and the cause it is about. */
export interface Why {
  /** The cause. */
  cause: string;
  /** The root, where it is about one. */
  root: string | null;
  /** The sentence. */
  text: string;
}

/** A stretch of time. */
export interface Span {
  /** What kind of thing: as kinds of evidence are named, or `throttle`, `reclaim`, `call`, or `idle`: a wait for work. */
  kind: string;
  /** Its start, nanoseconds after the page's origin. */
  start_ns: number;
  /** Its end. */
  end_ns: number;
  /** Where a part of it ends that is shown apart: the wait of a block request before the driver had it. */
  parted_ns: number | null;
  /** A word or two. */
  label: string;
  /** More about it. */
  text: string;
}

/** The slow requests, over time and one by one. */
export interface Slow {
  /** From which latency on a request counts as slow. */
  slower_than_ns: number;
  /** Requests seen, and slow ones among them. */
  requests: number;
  /** Slow ones that were judged. */
  slow: number;
  /** Slow requests of APIs that are not judged. */
  not_judged: ((number | string)[])[];
  /** The stages' names, in order. */
  stages: string[];
  /** The causes' names. */
  causes: string[];
  /** Totals by cause, most time first. */
  by_cause: Cause[];
  /** Roots, most time first. */
  by_root: Root[];
  /** Roots that are not told. */
  more_roots: number;
  /** Time of slow requests by the bucket of their arrival: the bucket, then microseconds by stage. */
  stage_cells: number[][];
  /** The same by cause. */
  cause_cells: number[][];
  /** Texts that the rows name by number. */
  names: string[];
  /** The rows, slowest first; see `ROW`. */
  rows: number[][];
  /** What a row's numbers are. */
  row: string[];
}

/** One root event. */
export interface Root {
  /** Its id. */
  root: string;
  /** Its cause. */
  cause: string;
  /** What it was. */
  text: string;
  /** How many requests it slowed. */
  requests: number;
  /** Their latencies together, and the slowest. */
  time_ns: number;
  /** The slowest of them. */
  slowest_ns: number;
  /** From the first arrival to the last end of them, where known. */
  start_ns: number | null;
  /** The last end. */
  end_ns: number | null;
}

/** The requests of one cause. */
export interface Cause {
  /** Its name. */
  cause: string;
  /** How many. */
  requests: number;
  /** Their latencies together. */
  time_ns: number;
  /** What to change. */
  advice: string[];
}

/** What is known of a recording beside its events. */
export interface RecordingInfo {
  /** What it is called. */
  name: string;
  /** Facts worth a line: the host, the broker, its settings. */
  facts: string[][];
  /** What was to be seen, and how that went. */
  plan: string[][];
}

/** One partition. */
export interface Partition {
  /** Its topic, or the topic's id; none for all partitions that are not told apart. */
  topic: string | null;
  /** Its number. */
  partition: number;
  /** By `COARSE` bucket of arrival: the bucket, requests, slow ones, bytes, and their latencies in microseconds together and the longest of them. */
  cells: number[][];
}

/** Something lost. */
export interface Loss {
  /** Between when it was lost. */
  start_ns: number;
  /** And when. */
  end_ns: number;
  /** What. */
  kind: string;
  /** How many. */
  count: number;
  /** More about it. */
  detail: string;
}

/** Latencies over time. */
export interface Latency {
  /** The upper bound of each level but the last, nanoseconds. */
  bounds_ns: number[];
  /** By API. */
  apis: Api[];
  /** Requests whose response was not seen, and that one was due for. */
  unanswered: number;
}

/** One API. */
export interface Api {
  /** Kafka's name. */
  api: string;
  /** Whether the broker kept them on purpose: a long poll, a rebalance. */
  intended_wait: boolean;
  /** How many were answered. */
  requests: number;
  /** Percentiles and the slowest, nanoseconds. */
  p50_ns: number;
  /** 90 %. */
  p90_ns: number;
  /** 99 %. */
  p99_ns: number;
  /** 99.9 %. */
  p999_ns: number;
  /** The slowest. */
  max_ns: number;
  /** Triples of bucket, level and count. */
  cells: number[];
}

/** Flame graphs, filtered by time. */
export interface Flame {
  /** Buckets of the axis in one of these. */
  buckets_each: number;
  /** Names of frames, which stacks name by number. */
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
  /** For each stack pairs of bucket and microseconds. */
  cells: number[][][];
  /** Microseconds in stacks that are not told. */
  left_out_us: number;
}

/** One file. */
export interface File {
  /** Its name; none for all files that are not told apart. */
  file: string | null;
  /** What it is to the broker. */
  kind: string;
  /** The device that holds it. */
  device: string | null;
  /** By `COARSE` bucket: the bucket, operations, bytes written, bytes read and those of them that came from the device, and the operations' time in microseconds together and the longest. */
  cells: number[][];
}

/** One figure of the host, about once a second. */
export interface Figure {
  /** What it is of. */
  scope: string;
  /** Which one of them. */
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
  /** By bucket of issue: the bucket, reads, writes, flushes and others, bytes, and in microseconds the time that the device took, the time before it had them, and the longest that it took. */
  cells: number[][];
}

/** A slow request. Times are nanoseconds after the page's origin; stretches are numbers of the recording's spans. */
export interface Detail {
  /** What a link names it by. */
  id: string;
  /** First byte of the request. */
  arrival_ns: number;
  /** Its last byte. */
  arrival_end_ns: number;
  /** First byte of the response. */
  response_ns: number | null;
  /** Its last byte. */
  end_ns: number;
  /** Kafka's name of the API. */
  api: string;
  /** Its version. */
  api_version: number;
  /** The client's number for it. */
  correlation_id: number;
  /** What the client calls itself. */
  client_id: string | null;
  /** The client's end of the connection. */
  client: string;
  /** The broker's. */
  broker: string;
  /** Bytes of its frame. */
  request_bytes: number;
  /** Produce: 0, 1 or -1. */
  acks: number | null;
  /** Its partitions, as the broker names their directories, with the bytes of each. */
  partitions: ((number | string)[])[];
  /** Nanoseconds in each stage, in their order. */
  stages: number[];
  /** The same in the order of time: the number of the stage, its start and its end. */
  stage_spans: number[][];
  /** The cause. */
  cause: string;
  /** The way to it, nearest first. */
  chain: string[];
  /** The root's id. */
  root: string;
  /** `exact`, `strong` or `weak`. */
  confidence: string;
  /** The partition that the time was lost on. */
  partition: string | null;
  /** What was seen that supports the verdict, in the order of the story. */
  evidence: Proof[];
  /** What to change. */
  advice: string[];
  /** What was lost near it. */
  losses: string[];
  /** What could not be decided, and what would have told. */
  doubts: Open[];
  /** What threads did meanwhile: those of the evidence first, in its order. */
  threads: Lane[];
  /** Commits of journals. */
  commits: Commit[];
  /** Requests to devices. */
  block_ios: number[];
  /** Stops of the JVM, and calls of kernel functions by threads that are not the broker's. */
  others: number[];
  /** Whether something of its surroundings had been given up, or is not told, for want of room. */
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
  /** The thread; of a wait for a lock, the one that held it. */
  tid: number | null;
  /** Its name. */
  thread: string | null;
  /** A sentence. */
  text: string;
  /** Of a wait for a lock: the thread that waited. */
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
  /** What would have told. */
  tells: string;
}

/** What one thread did. */
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
  /** Its beginning. */
  start_ns: number;
  /** Its end. */
  end_ns: number;
  /** The device. */
  device: string;
  /** The transaction. */
  transaction: number;
  /** Its phases in order, milliseconds, where they were seen. */
  phases: ((number | string)[])[];
  /** Blocks it logged. */
  blocks: number | null;
}

/** Advice as a page shows it. */
export interface Advice {
  /** How long was watched; none where nothing of requests is known. */
  window_ns: number | null;
  /** Slow requests in that time. */
  slow_requests: number | null;
  /** What they took. */
  slow_ns: number | null;
  /** By layer, that with the dearest first. */
  layers: Layer[];
  /** What is not known. */
  missing: UnknownInput[];
  /** Rules that have nothing to advise. */
  silent: QuietRule[];
}

/** An input that is not known. */
export interface UnknownInput {
  /** What. */
  input: string;
  /** Why not. */
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
  /** Why not. */
  why: string;
}

/** Advice on one layer. */
export interface Layer {
  /** Its name. */
  layer: string;
  /** Its advice, by rank. */
  given: Recommendation[];
}

/** One rule's advice. */
export interface Recommendation {
  /** Its place by measured cost, from 1. */
  rank: number;
  /** The rule's name. */
  rule: string;
  /** Where its change is made. */
  layer: string;
  /** What it cost slow requests; none where that was not measured. */
  cost_ns: number | null;
  /** How many of them. */
  cost_requests: number | null;
  /** What was seen. */
  evidence: string;
  /** Settings, the first to be tried first. */
  changes: Change[];
  /** What to expect. */
  effect: string;
  /** What it may cost. */
  risk: string;
  /** The command that shows whether it helped, and what to look at. */
  verify: string;
  /** When the rule speaks. */
  condition: string;
  /** Where that and the advice come from. */
  source: string;
}

/** One setting. */
export interface Change {
  /** Its name. */
  setting: string;
  /** What it is. */
  old: string;
  /** What it should be. */
  new: string;
  /** The same for programs; none where only a person can make the change. */
  target: Target | null;
  /** Whether it helps only together with the change before it. */
  together: boolean;
  /** How it goes with the changes before it: `and/or` (it helps alone, too), `and` (only together), `or` (it excludes them). */
  combination: string;
}

/** A setting as a program changes it. */
export interface Target {
  /** Where it is set. */
  of: string;
  /** Its name there. */
  name: string;
  /** Its new value. */
  value: string;
}
