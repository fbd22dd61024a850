// Formats the figures of a comparison.

import { count, counted, length, plain, short, size } from "./format";

export { count, counted, length };

/** A figure's value, in the unit of its name. */
export function show(figure: string, value: number | null): string {
  if (value === null) return "–";
  if (figure.endsWith("_ns")) return length(value);
  if (figure === "record_bytes_per_s") return `${size(value)}/s`;
  if (figure.endsWith("_ratio")) return share(value);
  return value >= 100 ? count(value) : short(value);
}

function share(value: number): string {
  const hundredths = 100 * value;
  return `${hundredths === 0 ? "0" : hundredths.toFixed(hundredths < 0.1 ? 3 : hundredths < 10 ? 2 : 1)} %`;
}

/** A duration that a user has set: `65 ms`. */
export function chosen(ns: number): string {
  return plain(ns);
}

/** A change, in per cent or percentage points. */
export function change(kind: string, value: number | null): string {
  return value === null ? "–" : `${signed(kind, value)} ${kind === "ratio" ? "%" : "points"}`;
}

/** An interval, in the unit of the change. */
export function spread(kind: string, low: number, high: number): string {
  return `${signed(kind, low)} to ${signed(kind, high)}`;
}

function signed(kind: string, value: number): string {
  const hundredths = 100 * value;
  const size = Math.abs(hundredths);
  if (size >= 9999.5) return `${hundredths < 0 ? "−" : "+"}${size.toExponential(0)}`;
  const digits = size >= 9.95 ? 0 : size >= 0.95 || kind === "ratio" ? 1 : 2;
  const text = size.toFixed(digits);
  return Number(text) === 0 ? "0" : `${hundredths < 0 ? "−" : "+"}${text}`;
}
