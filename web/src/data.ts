// The page's data. Its types are generated (types.ts), and `npm run check` checks the golden of the Rust side against them.

import type { Page, Recording, Span } from "./types";

export type { Advice, Api, Detail, Figure, Page, Recommendation, Recording, Root, Span, Stack, Why } from "./types";

/** A slow request, with the fields of a row of `slow.rows`. */
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

/** The spans with these numbers. */
export function spansOf(recording: Recording, numbers: number[]): Span[] {
  return numbers.flatMap((number) => recording.spans[number] ?? []);
}

/** Reads the data embedded in the page. */
export function read(): Page {
  const element = document.getElementById("page-data");
  const page = JSON.parse(element?.textContent ?? "{}") as Page;
  if (page.format !== "brokerscope-page" || page.version !== 4) {
    throw new Error("the page's data and its script are of different versions: write the page again with brokerscope report");
  }
  return page;
}
