// Latency over time: counts of all requests by latency, on a logarithmic scale, with the median and 99th percentile of each
// bucket, computed from the same counts.

import type uPlot from "uplot";

import { type Charts, legend } from "./charts";
import { heat, isDark, LEVELS, leastOf, themed } from "./colours";
import type { Api, Recording } from "./data";
import { h } from "./dom";
import { count, length, plain } from "./format";
import { scale } from "./scale";

const LEAST = 1e4;

interface Counts {
  /** By bucket, then level. */
  cells: Map<number, Map<number, number>>;
  most: number;
  lowest: number;
  highest: number;
}

/** The heat map of some APIs. */
export function heatmap(charts: Charts, recording: Recording): HTMLElement {
  const { latency, bucket_ns, buckets, slow } = recording;
  const byNumber = [...latency.apis].sort((a, b) => b.requests - a.requests);
  const holder = h("div", {});
  const choose = h("select", { "aria-label": "API", change: () => show() });
  choose.append(h("option", { value: "" }, "all APIs, without intended waits"));
  for (const [at, api] of byNumber.entries()) {
    choose.append(h("option", { value: at }, `${api.api}${api.intended_wait ? ", intended wait" : ""} (${count(api.requests)})`));
  }
  const produce = byNumber.findIndex((api) => api.api === "PRODUCE" && !api.intended_wait);
  choose.value = produce >= 0 ? String(produce) : "";
  const show = (): void => {
    const chosen = choose.value === "" ? byNumber.filter((api) => !api.intended_wait) : byNumber.slice(Number(choose.value), Number(choose.value) + 1);
    holder.replaceChildren(chart(chosen));
  };

  const chart = (apis: Api[]): HTMLElement => {
    const counts = add(apis);
    const { bounds_ns } = latency;
    const seconds = bucket_ns / 1e9;
    const times = Array.from({ length: buckets }, (_, at) => (at + 0.5) * seconds);
    const upper = (level: number): number => bounds_ns[level] ?? (bounds_ns.at(-1) ?? LEAST) * 1.26;
    const lower = (level: number): number => (level === 0 ? LEAST / 1.26 : (bounds_ns[level - 1] ?? LEAST));
    const range: [number, number] = [lower(Math.max(0, counts.lowest - 2)), Math.max(upper(counts.highest + 2), slow.slower_than_ns * 2)];
    const draw = (plot: uPlot): void => {
      const { ctx, bbox } = plot;
      const dark = isDark();
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const [bucket, levels] of counts.cells) {
        const left = Math.floor(plot.valToPos(bucket * seconds, "x", true));
        const right = Math.floor(plot.valToPos((bucket + 1) * seconds, "x", true));
        for (const [level, number] of levels) {
          const top = Math.round(plot.valToPos(upper(level), "y", true));
          const bottom = Math.round(plot.valToPos(lower(level), "y", true));
          ctx.fillStyle = heat(number, counts.most, dark);
          ctx.fillRect(left, top, Math.max(1, right - left), Math.max(1, bottom - top));
        }
      }
      const limit = plot.valToPos(slow.slower_than_ns, "y", true);
      ctx.strokeStyle = themed("--bad");
      ctx.setLineDash([4, 4]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, limit);
      ctx.lineTo(bbox.left + bbox.width, limit);
      ctx.stroke();
      ctx.restore();
    };
    const quantile = (share: number) => times.map((_, bucket) => quantileOf(counts.cells.get(bucket), share, upper));
    return charts.row({
      title: "Latency",
      unit: `requests by latency; dashed: slow at ${plain(slow.slower_than_ns)} or longer`,
      height: 260,
      times,
      lines: [
        { label: "p50", colour: "--muted", values: quantile(0.5), width: 1 },
        { label: "p99", colour: "--bad", values: quantile(0.99), width: 1.5 },
      ],
      show: length,
      range,
      log: true,
      draw,
      legend: h("div", {}, choose, counted(counts.most), legend([{ name: "p50", colour: "var(--muted)" }, { name: "p99", colour: "var(--bad)" }])),
      describe: (at, value) => {
        const levels = counts.cells.get(Math.floor(at / seconds));
        const level = bounds_ns.findIndex((bound) => value < bound);
        const here = levels?.get(level < 0 ? bounds_ns.length : level) ?? 0;
        const p99 = quantileOf(levels, 0.99, upper);
        return `${length(value)}: ${count(here)} requests${p99 === null ? "" : ` · p99 ${length(p99)}`}`;
      },
    });
  };
  show();
  return holder;
}

function add(apis: Api[]): Counts {
  const counts: Counts = { cells: new Map(), most: 0, lowest: Infinity, highest: 0 };
  for (const { cells } of apis) {
    for (let at = 0; at + 2 < cells.length; at += 3) {
      const [bucket, level, number] = [cells[at] ?? 0, cells[at + 1] ?? 0, cells[at + 2] ?? 0];
      const levels = counts.cells.get(bucket) ?? new Map<number, number>();
      counts.cells.set(bucket, levels);
      const sum = (levels.get(level) ?? 0) + number;
      levels.set(level, sum);
      counts.most = Math.max(counts.most, sum);
      counts.lowest = Math.min(counts.lowest, level);
      counts.highest = Math.max(counts.highest, level);
    }
  }
  if (counts.lowest === Infinity) counts.lowest = 0;
  return counts;
}

/** The colour legend: one block for each colour that a count can have. */
function counted(most: number): HTMLElement {
  const levels = Array.from({ length: LEVELS }, (_, level) => ({ level, from: Math.max(1, Math.ceil(leastOf(level, most))) }));
  const blocks = levels.filter(({ from }, at) => from < (levels[at + 1]?.from ?? most + 1));
  return scale({ title: "requests in a cell", blocks: blocks.map(({ level, from }) => ({ level, from: count(from) })), until: count(most) }, true);
}

/** The upper bound of the level that contains the quantile. */
function quantileOf(levels: Map<number, number> | undefined, share: number, upper: (level: number) => number): number | null {
  if (!levels) return null;
  const sorted = [...levels].sort(([a], [b]) => a - b);
  const all = sorted.reduce((sum, [, number]) => sum + number, 0);
  let seen = 0;
  for (const [level, number] of sorted) {
    seen += number;
    if (seen >= share * all) return upper(level);
  }
  return null;
}
