// Formats durations, times, sizes and counts.

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];

/** A duration in nanoseconds: `126 ms`. */
export function length(ns: number): string {
  for (const [unit, name] of UNITS) {
    if (Math.abs(ns) >= unit) {
      const value = ns / unit;
      return `${value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)} ${name}`;
    }
  }
  return `${Math.round(ns)} ns`;
}

/** A duration without insignificant digits: `1 ms`. */
export function plain(ns: number): string {
  return ns === 0 ? "0" : length(ns).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
}

/** A share: `12.5 %`. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(share >= 0.1 ? 0 : 1)} %`;
}

/** A count with thousands separators. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** A count with its noun. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A size: `1.5 MiB`. */
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : 1)} ${units[unit] ?? ""}`;
}

/** A figure, in the unit of its name. */
export function figure(metric: string, value: number): string {
  if (metric.endsWith("bytes_per_second")) return `${size(value)}/s`;
  if (metric.endsWith("_bytes")) return size(value);
  if (metric.endsWith("_ratio")) return percent(value);
  if (metric.endsWith("_ms")) return `${value.toPrecision(3)} ms`;
  if (metric.endsWith("_per_second")) return `${short(value)}/s`;
  return short(value);
}

/** A number in a few characters. */
export function short(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (magnitude >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (magnitude >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  return String(Number(value.toPrecision(3)));
}

/** Times of a recording, in UTC. */
export class Clock {
  /** Milliseconds and the rest separately: a number cannot hold nanoseconds since 1970. */
  private readonly ms: number;
  private readonly rest: number;

  constructor(originNs: string) {
    const origin = BigInt(originNs);
    this.ms = Number(origin / 1_000_000n);
    this.rest = Number(origin % 1_000_000n);
  }

  /** `12:11:36.521`. */
  time(ns: number, digits = 3): string {
    const at = this.ms + Math.floor((this.rest + ns) / 1e6);
    const text = new Date(at).toISOString().slice(11, 23);
    return digits === 0 ? text.slice(0, 8) : text.slice(0, 9 + digits);
  }

  /** Seconds after the origin that are round on the clock. */
  round(from: number, until: number, step: number): number[] {
    const origin = this.ms / 1e3 + this.rest / 1e9;
    const first = Math.ceil((origin + from) / step);
    const last = Math.floor((origin + until) / step);
    return Array.from({ length: Math.max(0, Math.min(last - first + 1, 1000)) }, (_, at) => (first + at) * step - origin);
  }

  /** `2026-11-21`. */
  date(ns: number): string {
    return new Date(this.ms + Math.floor((this.rest + ns) / 1e6)).toISOString().slice(0, 10);
  }
}
