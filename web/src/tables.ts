// Tables: root events, slow requests, partitions and files. All follow the selection.

import { colourOf } from "./colours";
import type { Recording, Root, Row } from "./data";
import { h } from "./dom";
import { type Clock, count, counted, length, percent, size } from "./format";
import type { Selection, State } from "./state";

const SHOWN = 50;

interface Column<T> {
  title: string;
  value: (row: T) => string;
  number?: boolean;
  sort?: (row: T) => number | string;
}

/** A table that is redrawn when the selection changes; clicking a heading sorts by its column. */
function table<T>(caption: string, columns: Column<T>[], rows: () => T[], more: { click?: (row: T) => void; mark?: (row: T) => boolean; dim?: (row: T) => boolean }): { element: HTMLElement; show: () => void } {
  let by: { column: Column<T>; down: boolean } | null = null;
  let shown = SHOWN;
  const body = h("tbody", {});
  const foot = h("p", { class: "more" });
  const heads = columns.map((column) => {
    const sort = (): void => {
      by = by?.column === column ? { column, down: !by.down } : { column, down: true };
      show();
    };
    return h("th", { scope: "col", class: column.number ? "number" : "" }, column.sort ? h("button", { type: "button", click: sort }, column.title) : column.title);
  });
  const head = h("thead", {}, h("tr", {}, ...heads));
  const element = h("div", { class: "table", tabindex: 0, role: "group", "aria-label": caption }, h("table", {}, h("caption", {}, caption), head, body), foot);
  const show = (): void => {
    let all = rows();
    if (by) {
      const { column, down } = by;
      const key = column.sort ?? column.value;
      all = [...all].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
    }
    body.replaceChildren(
      ...all.slice(0, shown).map((row) => {
        const classes = [more.mark?.(row) ? "chosen" : "", more.dim?.(row) ? "dim" : "", more.click ? "link" : ""].join(" ").trim();
        const cells = columns.map((column, at) => {
          const text = column.value(row);
          const act = at === 0 && more.click ? h("button", { type: "button", click: () => more.click?.(row) }, text) : text;
          return h("td", { class: column.number ? "number" : "", title: text.length > 40 ? text : undefined }, act);
        });
        const line = h("tr", { class: classes }, ...cells);
        if (more.click) line.addEventListener("click", (event) => (event.target instanceof HTMLButtonElement ? undefined : more.click?.(row)));
        return line;
      }),
    );
    element.dataset["rows"] = String(all.length);
    const left = all.length - shown;
    const button = h("button", { type: "button", click: () => ((shown += 500), show()) }, "show more");
    foot.replaceChildren(all.length === 0 ? "No rows in the selection." : "", ...(left > 0 ? [`${counted(left, "more row")} `, button] : []));
  };
  return { element, show };
}

/** Whether a row is in the selection. */
export function selects(selection: Selection, row: Row): boolean {
  const { range, cause, root, search } = selection;
  if (range && (row.arrival > range[1] || row.arrival + row.latency < range[0])) return false;
  if (cause && row.cause !== cause) return false;
  if (root && row.root !== root) return false;
  if (!search) return true;
  const text = `${row.api} ${row.client} ${row.partition} ${row.cause} ${row.root} ${row.correlation}`.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Roots, with the number of their victims in the selection. */
export function roots(recording: Recording, rows: Row[], state: State, clock: Clock): HTMLElement {
  const victims = (): Map<string, number> => {
    const counts = new Map<string, number>();
    const others = { ...state.selection, root: null };
    for (const row of rows) if (selects(others, row)) counts.set(row.root, (counts.get(row.root) ?? 0) + 1);
    return counts;
  };
  let counts = victims();
  const all = recording.slow.by_root.reduce((sum, root) => sum + root.time_ns, 0);
  const columns: Column<Root>[] = [
    { title: "Root", value: (root) => root.root },
    { title: "Event", value: (root) => root.text },
    { title: "From", value: (root) => (root.start_ns === null ? "" : clock.time(root.start_ns)), sort: (root) => root.start_ns ?? 0 },
    { title: "Victims", value: (root) => count(root.requests), number: true, sort: (root) => root.requests },
    { title: "Victims' time", value: (root) => length(root.time_ns), number: true, sort: (root) => root.time_ns },
    { title: "Share of all", value: (root) => percent(root.time_ns / Math.max(1, all)), number: true },
    { title: "Slowest", value: (root) => length(root.slowest_ns), number: true, sort: (root) => root.slowest_ns },
  ];
  const within = (): Root[] => recording.slow.by_root.filter((root) => counts.has(root.root));
  const { element, show } = table("Root events, the most time first", columns, within, {
    click: (root) => state.set({ root: state.selection.root === root.root ? null : root.root }),
    mark: (root) => state.selection.root === root.root,
  });
  state.listen(() => {
    counts = victims();
    show();
  });
  show();
  return element;
}

/** Slow requests. */
export function requests(recording: Recording, rows: Row[], state: State, clock: Clock): { element: HTMLElement; within: () => Row[] } {
  const detailed = new Set(recording.requests.map((detail) => detail.id));
  const columns: Column<Row>[] = [
    { title: "Request", value: (row) => `${row.api} ${row.correlation}` },
    { title: "Arrival", value: (row) => clock.time(row.arrival), sort: (row) => row.arrival },
    { title: "Latency", value: (row) => length(row.latency), number: true, sort: (row) => row.latency },
    { title: "Client", value: (row) => row.client, sort: (row) => row.client },
    { title: "Partition", value: (row) => row.partition, sort: (row) => row.partition },
    { title: "Cause", value: (row) => row.cause, sort: (row) => row.cause },
    { title: "Root", value: (row) => row.root },
    { title: "Joined", value: (row) => row.confidence },
    { title: "", value: (row) => (detailed.has(row.id) ? "waterfall" : "") },
  ];
  const within = (): Row[] => rows.filter((row) => selects(state.selection, row));
  const { element, show } = table("Slow requests, the slowest first", columns, within, {
    click: (row) => (detailed.has(row.id) ? state.set({ request: row.id }) : undefined),
    mark: (row) => state.selection.request === row.id,
    dim: (row) => !detailed.has(row.id),
  });
  state.listen(() => show());
  show();
  return { element, within };
}

/** Sums of a partition's or a file's cells in the selected time range; the last number is a maximum. */
function sums(recording: Recording, cells: number[][], range: [number, number] | null): number[] {
  const bucket_ns = recording.bucket_ns * recording.coarse_buckets;
  const total: number[] = [];
  for (const [bucket = 0, ...numbers] of cells) {
    if (range && (bucket * bucket_ns >= range[1] || (bucket + 1) * bucket_ns <= range[0])) continue;
    for (const [at, number] of numbers.entries()) {
      const sum = total[at] ?? 0;
      total[at] = at === numbers.length - 1 ? Math.max(sum, number) : sum + number;
    }
  }
  return total;
}

interface Sums {
  name: string;
  about: string;
  sums: number[];
}

function summed(recording: Recording, state: State, all: { name: string; about: string; cells: number[][] }[], caption: string, columns: Column<Sums>[], click?: (row: Sums) => void): HTMLElement {
  const rows = (): Sums[] => {
    const { range, search } = state.selection;
    const words = search.toLowerCase().split(/\s+/);
    const hits = all.some((one) => words.every((word) => one.name.toLowerCase().includes(word)));
    return all
      .filter((one) => !hits || words.every((word) => one.name.toLowerCase().includes(word)))
      .map(({ name, about, cells }) => ({ name, about, sums: sums(recording, cells, range) }))
      .filter((row) => (row.sums[0] ?? 0) > 0);
  };
  const { element, show } = table(caption, columns, rows, click ? { click } : {});
  state.listen((_, changed) => {
    if (changed.has("range") || changed.has("search")) show();
  });
  show();
  return element;
}

const at = (index: number) => (row: Sums) => row.sums[index] ?? 0;

/** Topics × partitions. */
export function partitions(recording: Recording, state: State): HTMLElement {
  const all = recording.partitions.map(({ topic, partition, cells }) => ({ name: topic === null ? "all others" : `${topic}-${partition}`, about: "", cells }));
  const columns: Column<Sums>[] = [
    { title: "Partition", value: (row) => row.name },
    { title: "Requests", value: (row) => count(at(0)(row)), number: true, sort: at(0) },
    { title: "Slow", value: (row) => count(at(1)(row)), number: true, sort: at(1) },
    { title: "Slow share", value: (row) => percent(at(1)(row) / Math.max(1, at(0)(row))), number: true, sort: (row) => at(1)(row) / Math.max(1, at(0)(row)) },
    { title: "Bytes", value: (row) => size(at(2)(row)), number: true, sort: at(2) },
    { title: "Mean latency", value: (row) => length((at(3)(row) * 1e3) / Math.max(1, at(0)(row))), number: true, sort: (row) => at(3)(row) / Math.max(1, at(0)(row)) },
    { title: "Slowest", value: (row) => length(at(4)(row) * 1e3), number: true, sort: at(4) },
  ];
  return summed(recording, state, all, "Partitions, the most slow requests first", columns, (row) => state.set({ search: row.name }));
}

/** Files. */
export function files(recording: Recording, state: State): HTMLElement {
  const all = recording.files.map(({ file, kind, device, cells }) => ({ name: file ?? "all others", about: `${kind} ${device ?? ""}`, cells }));
  const columns: Column<Sums>[] = [
    { title: "File", value: (row) => row.name },
    { title: "Kind, device", value: (row) => row.about },
    { title: "Operations", value: (row) => count(at(0)(row)), number: true, sort: at(0) },
    { title: "Written", value: (row) => size(at(1)(row)), number: true, sort: at(1) },
    { title: "Read", value: (row) => size(at(2)(row)), number: true, sort: at(2) },
    { title: "Read from disk", value: (row) => size(at(3)(row)), number: true, sort: at(3) },
    { title: "Time", value: (row) => length(at(4)(row) * 1e3), number: true, sort: at(4) },
    { title: "Longest", value: (row) => length(at(5)(row) * 1e3), number: true, sort: at(5) },
  ];
  return summed(recording, state, all, "Files, the most time in operations first", columns);
}

/** A heat map of partitions: slow requests by topic and partition number. */
export function partitionGrid(recording: Recording, state: State): HTMLElement {
  const topics = new Map<string, { partition: number; cells: number[][] }[]>();
  for (const { topic, partition, cells } of recording.partitions) {
    if (topic !== null) topics.set(topic, [...(topics.get(topic) ?? []), { partition, cells }]);
  }
  const grid = h("div", { class: "grid" });
  const show = (): void => {
    const { range } = state.selection;
    const of = [...topics].map(([topic, list]) => ({ topic, list: list.map((one) => ({ ...one, sums: sums(recording, one.cells, range) })).sort((a, b) => a.partition - b.partition) }));
    const most = Math.max(1, ...of.flatMap(({ list }) => list.map((one) => one.sums[1] ?? 0)));
    grid.replaceChildren(
      ...of.map(({ topic, list }) => {
        const cells = list.map(({ partition, sums: [number = 0, slow = 0] }) => {
          const name = `${topic}-${partition}`;
          const cell = h("button", { type: "button", "aria-label": `${name}: ${slow} slow of ${number} requests`, title: `${name}: ${count(slow)} slow of ${counted(number, "request")}`, click: () => state.set({ search: name }) }, String(partition));
          const share = slow === 0 ? 0 : 0.15 + 0.75 * (Math.log1p(slow) / Math.log1p(most));
          cell.style.background = share === 0 ? "" : `color-mix(in srgb, ${colourOf("x", ["a", "x"])} ${Math.round(share * 70)}%, var(--panel))`;
          return cell;
        });
        return h("div", { class: "topic" }, h("span", { title: topic }, topic), h("div", {}, ...cells));
      }),
    );
  };
  state.listen((_, changed) => {
    if (changed.has("range")) show();
  });
  show();
  return grid;
}
