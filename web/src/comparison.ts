// The data of a comparison: the objects of `brokerscope compare --format json` (crates/report/src/comparison/view.rs).

export interface Comparison {
  configurations: Configuration[];
  differences: Difference[];
  over_time: Row[];
  summary: Summary;
}

/** Figures by name; null if there was no data for a figure. */
export interface Figures {
  requests_per_s: number | null;
  record_bytes_per_s: number | null;
  latency_p50_ns: number | null;
  latency_p90_ns: number | null;
  latency_p99_ns: number | null;
  latency_p999_ns: number | null;
  latency_max_ns: number | null;
  slo_miss_ratio: number | null;
}

export type Figure = keyof Figures;

export interface Configuration extends Figures {
  configuration: string;
  base: boolean;
  note: string | null;
  runs: Run[];
  requests: number;
  unanswered: number;
  seconds: number | null;
  slo_misses: number;
  intervals: Record<Figure, (number | null)[] | null>;
  causes: { cause: string; requests: number; time_ns: number }[];
}

export interface Run extends Figures {
  recording: string;
  requests: number;
  unanswered: number;
  seconds: number | null;
  block_ns: number;
  blocks_drawn_together: number;
}

export interface Difference {
  configuration: string | null;
  base: string;
  figure: string;
  base_value: number | null;
  value: number | null;
  change_is: string;
  change: number | null;
  relative_change: number | null;
  low: number | null;
  high: number | null;
  outcome: string;
  why: string | null;
}

export interface Row {
  configuration: string;
  figure: string;
  bucket_ns: number;
  cells: (number | null)[];
}

export interface Summary {
  configurations: number;
  base: string;
  apis: string[];
  topics: string[];
  slo_ns: number;
  confidence: number;
  draws: number;
  notes: string[];
}

/** Display names, in the order of the figures. */
export const FIGURES: [Figure, string][] = [
  ["requests_per_s", "requests/s"],
  ["record_bytes_per_s", "record bytes/s"],
  ["latency_p50_ns", "p50"],
  ["latency_p90_ns", "p90"],
  ["latency_p99_ns", "p99"],
  ["latency_p999_ns", "p99.9"],
  ["latency_max_ns", "max"],
  ["slo_miss_ratio", "SLO misses"],
];
