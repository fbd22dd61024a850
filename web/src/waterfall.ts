// One slow request on one time axis: its bytes on the wire, its stages, its evidence, commits and device requests, the
// activity of the threads involved, and other threads below.

import { colourOf, IDLE, isPale, KINDS, kindColour } from "./colours";
import { type Detail, type Recording, type Span, spansOf } from "./data";
import { h, s } from "./dom";
import { length, plain } from "./format";

const GUTTER = 230;
const BAR = 14;
const GAP = 3;
const OTHERS = 6;
/** Per lane. */
const MOST_ROWS = 5;

interface Bar {
  kind: string;
  start: number;
  end: number;
  parted?: number | null;
  label: string;
  text: string;
  colour?: string;
  hatched?: boolean;
}

interface Lane {
  title: string;
  about: string;
  bars: Bar[];
  strong?: boolean;
  heading?: boolean;
}

/** The waterfall as an SVG. */
export function waterfall(recording: Recording, detail: Detail, width: number, show: (text: string) => void): SVGSVGElement {
  const { arrival_ns: start, end_ns: end } = detail;
  const first = Math.min(start, ...detail.evidence.map((proof) => proof.start_ns));
  const margin = (end - start) * 0.03;
  const from = Math.max(first, start - (end - start)) - margin;
  const until = end + margin;
  const gutter = width < 700 ? 120 : GUTTER;
  const x = (at: number): number => gutter + ((Math.min(Math.max(at, from), until) - from) / (until - from)) * (width - gutter - 8);
  const lanes = lanesOf(recording, detail);
  const svg = s("svg", { class: "waterfall", width, role: "img", "aria-label": `Waterfall of request ${detail.correlation_id}` });
  let y = axis(svg, x, from, until, start, width, gutter);
  for (const lane of lanes) {
    if (lane.heading) {
      svg.append(s("text", { class: "heading", x: 0, y: y + 16 }, lane.title));
      y += 24;
      continue;
    }
    const { rows, left } = pack(lane.bars);
    const about = left > 0 ? `${left} more at once, not drawn` : lane.about;
    const height = rows.length * (BAR + GAP) + 5;
    const group = s("g", { class: lane.strong ? "lane strong" : "lane" });
    const name = clip(lane.title, gutter - 8);
    group.append(s("line", { class: "rule", x1: 0, x2: width, y1: y - 2, y2: y - 2 }));
    group.append(s("text", { x: 0, y: y + 11 }, s("title", {}, `${lane.title} ${lane.about}`), name));
    if (rows.length > 1 && about) group.append(s("text", { class: "about", x: 0, y: y + 28 }, clip(about, gutter - 8)));
    for (const [at, row] of rows.entries()) {
      for (const bar of row) group.append(draw(bar, x, y + at * (BAR + GAP), width, show));
    }
    svg.append(group);
    y += height;
  }
  for (const at of [start, end]) svg.append(s("line", { class: "edge", x1: x(at), x2: x(at), y1: 16, y2: y }));
  svg.setAttribute("height", String(y + 4));
  return svg;
}

function lanesOf(recording: Recording, detail: Detail): Lane[] {
  const lanes: Lane[] = [
    { title: `${detail.api} ${detail.correlation_id}`, about: detail.client_id ?? detail.client, bars: wire(detail), strong: true },
    { title: "stages", about: "", bars: stages(recording, detail), strong: true },
    { title: "Evidence", about: "", bars: [], heading: true },
  ];
  for (const proof of detail.evidence) {
    const [thread, tid] = proof.waiter_tid === null ? [proof.thread, proof.tid] : [proof.waiter, proof.waiter_tid];
    const who = thread ? `${short(thread)} ${tid ?? ""}` : (tid?.toString() ?? "");
    lanes.push({
      title: `${proof.kind} ${who}`.trim(),
      about: proof.text,
      bars: [{ kind: proof.kind, start: proof.start_ns, end: proof.end_ns, label: proof.text, text: `${proof.kind} ${who}: ${proof.text}` }],
      strong: true,
    });
  }
  const named = detail.threads.filter((thread) => thread.in_evidence);
  const others = detail.threads.filter((thread) => !thread.in_evidence);
  lanes.push({ title: "What its threads did", about: "", bars: [], heading: true });
  for (const thread of named) lanes.push({ title: `${short(thread.thread)} ${thread.tid}`, about: "", bars: spansOf(recording, thread.spans).map(bar), strong: true });
  lanes.push({ title: "Journal, devices and JVM", about: "", bars: [], heading: true });
  for (const commit of detail.commits) {
    const phases = commit.phases.map(([name, ms]) => `${name} ${ms} ms`).join(", ");
    const text = `${commit.device}: commit of transaction ${commit.transaction}, ${length(commit.end_ns - commit.start_ns)}${phases ? ` (${phases})` : ""}`;
    lanes.push({ title: `commit ${commit.device}`, about: "", bars: [{ kind: "commit", start: commit.start_ns, end: commit.end_ns, label: `transaction ${commit.transaction}${phases ? ` · ${phases}` : ""}`, text }] });
  }
  if (detail.block_ios.length > 0) lanes.push({ title: "block requests", about: "pale: queued before the driver", bars: spansOf(recording, detail.block_ios).map(bar) });
  if (detail.others.length > 0) lanes.push({ title: "JVM, kernel", about: "", bars: spansOf(recording, detail.others).map(bar) });
  if (others.length > 0) lanes.push({ title: `Other threads${others.length > OTHERS ? `, the busiest ${OTHERS} of ${others.length}` : ""}`, about: "", bars: [], heading: true });
  for (const thread of others.slice(0, OTHERS)) lanes.push({ title: `${short(thread.thread)} ${thread.tid}`, about: "", bars: spansOf(recording, thread.spans).map(bar) });
  // Drops headings with nothing below them.
  return lanes.filter((lane, at) => !lane.heading || (lanes[at + 1] !== undefined && !lanes[at + 1]?.heading));
}

function wire(detail: Detail): Bar[] {
  const { arrival_ns, arrival_end_ns, response_ns, end_ns } = detail;
  const served = response_ns ?? end_ns;
  const bars: Bar[] = [
    { kind: "request", start: arrival_ns, end: arrival_end_ns, label: "", text: `request, first byte to last: ${length(arrival_end_ns - arrival_ns)}`, colour: colourOf("in", ["out", "in"]) },
    { kind: "request", start: arrival_end_ns, end: served, label: `${length(end_ns - arrival_ns)} from first byte to last`, text: `at the broker: ${length(served - arrival_end_ns)}` },
    { kind: "request", start: served, end: end_ns, label: "", text: `response, first byte to last: ${length(end_ns - served)}`, colour: colourOf("in", ["out", "in"]) },
  ];
  return bars.filter((one) => one.end > one.start);
}

/** Stages of the request; together they cover all of its time. */
function stages(recording: Recording, detail: Detail): Bar[] {
  const names = recording.slow.stages;
  return detail.stage_spans.map(([stage = 0, start = 0, end = 0]) => {
    const name = names[stage] ?? "";
    const label = `${name.replaceAll("_", " ")} ${length(end - start)}`;
    return { kind: "stage", start, end, label, text: label, colour: colourOf(name, names), hatched: name === "unobserved" };
  });
}

function bar(span: Span): Bar {
  const { kind } = span;
  return { kind, start: span.start_ns, end: span.end_ns, parted: span.parted_ns, label: span.label, text: `${kind}, ${length(span.end_ns - span.start_ns)}: ${span.text}`, hatched: kind === IDLE };
}

/** Rows without overlapping bars. Each kind has separate rows, so that reasons are below what they explain. Counts the bars that
 * find no row. */
function pack(bars: Bar[]): { rows: Bar[][]; left: number } {
  const rows: { kind: string; end: number; bars: Bar[] }[] = [];
  let left = 0;
  const order = [...new Set(bars.map((one) => one.kind))];
  for (const kind of order) {
    for (const one of bars.filter((bar) => bar.kind === kind).sort((a, b) => a.start - b.start)) {
      const row = rows.find((free) => free.kind === kind && free.end <= one.start);
      if (row) {
        row.bars.push(one);
        row.end = one.end;
      } else if (rows.length < MOST_ROWS) rows.push({ kind, end: one.end, bars: [one] });
      else left += 1;
    }
  }
  return { rows: rows.length > 0 ? rows.map((row) => row.bars) : [[]], left };
}

function draw(one: Bar, x: (at: number) => number, y: number, width: number, show: (text: string) => void): SVGGElement {
  const [left, right] = [x(one.start), x(one.end)];
  const colour = one.colour ?? kindColour(one.kind);
  const wide = Math.max(1.5, right - left);
  const group = s("g", { class: "bar", "data-kind": one.kind, tabindex: -1, click: () => show(one.text), mouseenter: () => show(one.text) }, s("title", {}, one.text));
  group.append(s("rect", { x: left, y, width: wide, height: BAR, rx: 1.5, fill: colour, ...(one.hatched ? { "fill-opacity": 0.35 } : {}) }));
  if (one.parted !== null && one.parted !== undefined && one.parted > one.start) {
    // A block request is pale until the driver has it; a thread off the CPU, from when it is runnable.
    const [from, until] = one.kind === "off-cpu" || one.kind === IDLE ? [one.parted, one.end] : [one.start, one.parted];
    group.append(s("rect", { class: "pale", x: x(from), y, width: Math.max(0, x(until) - x(from)), height: BAR }));
  }
  const inside = wide > 60;
  const room = inside ? wide - 6 : width - right - 10;
  const text = clip(one.label, room);
  const quiet = one.kind === "block-io" || wide < 6;
  if (text && (inside || (!quiet && one.label.length * 6.2 < room) || one.kind === "commit")) {
    const look = !inside ? "out" : one.hatched ? "in hatched" : isPale(colour) ? "in pale-bar" : "in";
    group.append(s("text", { class: look, x: inside ? left + 4 : right + 4, y: y + 11 }, text));
  }
  return group;
}

function axis(svg: SVGSVGElement, x: (at: number) => number, from: number, until: number, start: number, width: number, gutter: number): number {
  const rough = (until - from) / Math.max(3, Math.floor((width - gutter) / 110));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough) ?? power;
  for (let at = Math.ceil((from - start) / step) * step; start + at <= until; at += step) {
    const left = x(start + at);
    svg.append(s("line", { class: "tick", x1: left, x2: left, y1: 16, y2: "100%" }));
    if (left < width - 44) svg.append(s("text", { class: "tick", x: left + 2, y: 11 }, at === 0 ? "0 (first byte)" : plain(at)));
  }
  return 22;
}

/** As much of a text as fits into a width in pixels. */
function clip(text: string, pixels: number): string {
  const room = Math.floor(pixels / 6.1);
  if (room < 3) return "";
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}

function short(thread: string): string {
  return thread.replace("data-plane-kafka-", "");
}

/** The legend of the colours in the lanes. */
export function kindLegend(recording: Recording, detail: Detail): HTMLElement {
  const spans = spansOf(recording, [...detail.threads.flatMap((thread) => thread.spans), ...detail.block_ios, ...detail.others]);
  const kinds = new Set([...detail.evidence.map((proof) => proof.kind), ...(detail.commits.length > 0 ? ["commit"] : []), ...spans.map((span) => span.kind)]);
  const list = h("ul", { class: "legend", "aria-label": "Kinds" });
  for (const kind of Object.keys(KINDS).filter((one) => kinds.has(one))) {
    const swatch = h("span", { class: kind === IDLE ? "swatch muted" : "swatch", "aria-hidden": "true" });
    swatch.style.background = kindColour(kind);
    list.append(h("li", {}, swatch, kind === IDLE ? "idle: waits for work" : kind));
  }
  return list;
}

/** The evidence as text for screen readers, printed below. */
export function evidenceList(detail: Detail): HTMLElement {
  const list = h("ol", { class: "evidence" });
  for (const proof of detail.evidence) {
    const when = `${length(proof.start_ns - detail.arrival_ns)} … ${length(proof.end_ns - detail.arrival_ns)}`;
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = kindColour(proof.kind);
    list.append(h("li", {}, swatch, h("span", { class: "when" }, when), h("span", {}, proof.text)));
  }
  return list;
}
