// What each thread did over time: one lane per thread, with the shares of its time in each bucket. Waits that delayed requests
// are on top; unobserved time is blank. Threads in the evidence of the selected request are marked.

import type uPlot from "uplot";

import { legend, type Charts } from "./charts";
import { kindColour, themed } from "./colours";
import type { Recording } from "./data";
import { h } from "./dom";
import { length } from "./format";
import type { State } from "./state";

const ROW = 17;
/** The number of threads that fit on a sheet of paper. */
const SHOWN = 36;
/** Drawn at the bottom, as the background for other states. */
const IDLE = "waiting for work";

export function threads(charts: Charts, recording: Recording, state: State): HTMLElement | null {
  const seen = recording.threads.filter((thread) => thread.cells.length > 0);
  const shown = seen.slice(0, SHOWN);
  if (shown.length === 0) return null;
  const { thread_states: states, bucket_ns } = recording;
  const seconds = bucket_ns / 1e9;
  const cells = shown.map((thread) => new Map(thread.cells.map(([bucket = 0, ...lengths]) => [bucket, lengths])));
  const names = shown.map(({ thread, tid }) => h("li", { title: `${thread} ${tid ?? ""}` }, `${thread.replace("data-plane-kafka-", "")} ${tid ?? "others"}`));
  let dim = new Set<number>();

  // Reads the style sheet once per drawing: there are tens of thousands of cells.
  const colours = (): string[] => states.map((name) => (name === IDLE ? themed("--idle") : kindColour(name)));
  const lane = (plot: uPlot, of: string[], lengths: number[], bucket: number, top: number, height: number): void => {
    const { ctx } = plot;
    const left = Math.floor(plot.valToPos(bucket * seconds, "x", true));
    const width = Math.max(1, Math.floor(plot.valToPos((bucket + 1) * seconds, "x", true)) - left);
    let bottom = top + height;
    for (const [at, micros] of lengths.entries()) {
      const share = (micros * 1e3) / bucket_ns;
      if (share <= 0) continue;
      const name = states[at] ?? "";
      // Even a wait of a two-hundredth of the bucket must be visible.
      const high = Math.min(bottom - top, Math.max(share * height, name === IDLE || share < 0.005 ? 0 : 1));
      ctx.fillStyle = of[at] ?? "";
      ctx.fillRect(left, bottom - high, width, high);
      bottom -= high;
    }
  };
  const draw = (plot: uPlot): void => {
    const { ctx, bbox } = plot;
    const row = bbox.height / shown.length;
    const [rule, of] = [themed("--rule"), colours()];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const [at, buckets] of cells.entries()) {
      ctx.globalAlpha = dim.has(at) ? 0.2 : 1;
      ctx.fillStyle = rule;
      ctx.fillRect(bbox.left, bbox.top + (at + 1) * row - 1, bbox.width, 1);
      for (const [bucket, lengths] of buckets) lane(plot, of, lengths, bucket, bbox.top + at * row + 2, row - 3);
    }
    ctx.restore();
  };
  const strip = charts.row({
    title: seen.length > SHOWN ? `Threads: the busiest ${SHOWN} of ${seen.length}` : "Threads",
    unit: "share of each thread's time; blank: not observed",
    height: shown.length * ROW + 28,
    times: Array.from({ length: recording.buckets }, (_, at) => (at + 0.5) * seconds),
    lines: [],
    show: () => "",
    range: [0, shown.length],
    bare: true,
    draw,
    describe: (at, value) => {
      const index = Math.min(shown.length - 1, Math.max(0, Math.floor(shown.length - value)));
      const thread = shown[index];
      const lengths = cells[index]?.get(Math.floor(at / seconds));
      const parts = lengths?.flatMap((one, state) => (one > 0 ? [`${states[state] ?? ""} ${length(one * 1e3)}`] : [])) ?? [];
      return `${thread?.thread ?? ""} ${thread?.tid ?? ""}: ${parts.join(", ") || "not seen"}`;
    },
    legend: legend(states.map((name) => ({ name, colour: name === IDLE ? "var(--idle)" : kindColour(name) }))),
  });
  strip.classList.add("lanes");
  strip.querySelector(".plot")?.append(h("ol", { class: "threads" }, ...names));

  const mark = (): void => {
    const { request, search } = state.selection;
    const detail = recording.requests.find((one) => one.id === request);
    const named = new Set(detail?.threads.filter((thread) => thread.in_evidence).map((thread) => thread.tid));
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const missed = shown.flatMap(({ thread, tid }, at) => (words.every((word) => `${thread} ${tid ?? ""}`.toLowerCase().includes(word)) ? [] : [at]));
    // A search that matches no thread is not about threads.
    dim = new Set(missed.length < shown.length ? missed : []);
    for (const [at, { tid }] of shown.entries()) {
      names[at]?.classList.toggle("named", tid !== null && named.has(tid));
      names[at]?.classList.toggle("dim", dim.has(at));
    }
  };
  state.listen((_, changed) => {
    if (!changed.has("request") && !changed.has("search")) return;
    mark();
    charts.redraw();
  });
  mark();
  return strip;
}
