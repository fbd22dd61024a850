// What each thread did over time: a row a thread, a cell a bucket, in the colour of the state that it waited in longest, as
// strong as its share of the bucket.

import type uPlot from "uplot";

import { legend, type Charts } from "./charts";
import { kindColour } from "./colours";
import type { Recording } from "./data";
import { h } from "./dom";
import { length } from "./format";

const ROW = 14;

export function threads(charts: Charts, recording: Recording): HTMLElement | null {
  const shown = recording.threads.filter((thread) => thread.cells.length > 0).slice(0, 40);
  if (shown.length === 0) return null;
  const { thread_states: states, bucket_ns } = recording;
  const seconds = bucket_ns / 1e9;
  // Off-CPU time lies within file operations: what is left of them is time in the call itself.
  const spent = (cell: number[]): number[] => {
    const [, cpu = 0, file = 0, kernel = 0, lock = 0, cpuWait = 0] = cell;
    return [cpu, Math.max(0, file - kernel - cpuWait), kernel, lock, cpuWait];
  };
  const cells = shown.map((thread) => new Map(thread.cells.map((cell) => [cell[0] ?? 0, spent(cell)])));
  const draw = (plot: uPlot): void => {
    const { ctx, bbox } = plot;
    const row = bbox.height / shown.length;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const [at, buckets] of cells.entries()) {
      for (const [bucket, lengths] of buckets) {
        const all = lengths.reduce((sum, one) => sum + one, 0) * 1e3;
        const state = lengths.indexOf(Math.max(...lengths));
        const left = Math.floor(plot.valToPos(bucket * seconds, "x", true));
        const right = Math.ceil(plot.valToPos((bucket + 1) * seconds, "x", true));
        ctx.globalAlpha = 0.15 + 0.85 * Math.min(1, Math.sqrt(all / bucket_ns));
        ctx.fillStyle = kindColour(states[state] ?? "");
        ctx.fillRect(left, bbox.top + at * row + 1, Math.max(1, right - left), row - 2);
      }
    }
    ctx.restore();
  };
  const strip = charts.row({
    title: "Threads",
    unit: "the state that took longest; stronger is more of the time",
    height: shown.length * ROW + 28,
    times: Array.from({ length: recording.buckets }, (_, at) => (at + 0.5) * seconds),
    lines: [],
    show: () => "",
    range: [0, shown.length],
    bare: true,
    draw,
    tell: (at, value) => {
      const index = Math.min(shown.length - 1, Math.max(0, Math.floor(shown.length - value)));
      const thread = shown[index];
      const lengths = cells[index]?.get(Math.floor(at / seconds));
      const told = lengths?.flatMap((one, state) => (one > 0 ? [`${states[state] ?? ""} ${length(one * 1e3)}`] : [])) ?? [];
      return `${thread?.thread ?? ""} ${thread?.tid ?? ""}: ${told.join(", ") || "not seen"}`;
    },
    legend: legend(states.map((name) => ({ name, colour: kindColour(name) }))),
  });
  const names = h("ol", { class: "threads" });
  for (const { thread, tid } of shown) {
    names.append(h("li", { title: `${thread} ${tid ?? ""}` }, `${thread.replace("data-plane-kafka-", "")} ${tid ?? "others"}`));
  }
  strip.querySelector(".plot")?.append(names);
  return strip;
}
