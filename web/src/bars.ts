// One bar per configuration, in the given order: throughput after each step, or any other figure. With intervals, and one
// dot per run.

import { type Comparison, type Configuration, type Figure, FIGURES } from "./comparison";
import { h, s } from "./dom";
import { show } from "./figures";
import { clip, picture, ticks } from "./picture";

const BAR = 20;
const STEP = 34;
const NOTE = 15;
const AXIS = 36;

/** The chart with a choice of figures. */
export function bars(comparison: Comparison): HTMLElement {
  const holder = h("div", {});
  const choose = h("select", { "aria-label": "Figure", change: () => draw() });
  for (const [figure, title] of FIGURES) choose.append(h("option", { value: figure }, title));
  choose.value = telling(comparison.configurations);
  const draw = (): void => {
    const figure = FIGURES.find(([name]) => name === choose.value)?.[0] ?? "requests_per_s";
    holder.replaceChildren(chart(comparison.configurations, figure));
  };
  draw();
  return h("div", {}, h("p", { class: "controls" }, choose), holder);
}

/** The figure that is shown first: the share of missed objectives if all configurations carried the same load, else the
 * throughput. It is in bytes, because a change may affect the size of requests. */
function telling(configurations: Configuration[]): Figure {
  const carried = configurations.map((one) => one.record_bytes_per_s ?? 0);
  const [least, most] = [Math.min(...carried), Math.max(...carried)];
  if (most > 0 && least < most * 0.9) return "record_bytes_per_s";
  if (configurations.some((one) => one.slo_misses > 0)) return "slo_miss_ratio";
  return most > 0 ? "record_bytes_per_s" : "requests_per_s";
}

function chart(configurations: Configuration[], figure: Figure): HTMLElement {
  const title = FIGURES.find(([name]) => name === figure)?.[1] ?? figure;
  const values = configurations.flatMap((one) => [one[figure], ...one.runs.map((run) => run[figure])]).filter((value): value is number => value !== null);
  const longest = Math.max(0, ...values);
  // An interval may be far longer than all bars; it is cut off so that the bars do not become too short.
  const ends = configurations.map((one) => one.intervals[figure]?.[1] ?? 0);
  const most = Math.min(Math.max(longest, ...ends), 2 * longest) || 1;
  const figures = configurations.map((one) => `${one.configuration} ${show(figure, one[figure])}`).join(", ");
  return picture(`${title}: ${figures}`, (width) => {
    const gutter = width < 700 ? 110 : 190;
    const right = 90;
    // An interval may extend below zero.
    const x = (value: number): number => gutter + (Math.max(0, Math.min(value, most)) / most) * (width - gutter - right);
    const svg = s("svg", { class: "bars", width });
    // Sizes have round ticks in their unit.
    const unit = figure === "record_bytes_per_s" ? 1024 ** Math.max(0, Math.floor(Math.log(most) / Math.log(1024))) : 1;
    const marks = ticks(most / unit, width < 700 ? 3 : 6).map((mark) => mark * unit);
    let y = 4;
    const rows: SVGElement[] = [];
    for (const one of configurations) {
      rows.push(...bar(one, figure, x, y, gutter, width));
      y += STEP + (one.note ? NOTE : 0);
    }
    for (const mark of marks) {
      svg.append(s("line", { class: "tick", x1: x(mark), x2: x(mark), y1: 0, y2: y }));
      svg.append(s("text", { class: "tick", x: x(mark), y: y + 14, "text-anchor": "middle" }, mark === 0 ? "0" : show(figure, mark)));
    }
    svg.append(...rows, s("text", { class: "tick", x: gutter, y: y + 30 }, title));
    svg.setAttribute("height", String(y + AXIS));
    return svg;
  });
}

function bar(one: Configuration, figure: Figure, x: (value: number) => number, y: number, gutter: number, width: number): SVGElement[] {
  const value = one[figure];
  const middle = y + BAR / 2;
  const parts: SVGElement[] = [s("text", { x: 0, y: middle + 4 }, s("title", {}, one.configuration), clip(one.configuration, gutter - 8))];
  let end = x(value ?? 0);
  parts.push(s("rect", { class: one.base ? "bar base" : "bar", x: gutter, y, width: Math.max(0, end - gutter), height: BAR }));
  const [low, high] = one.intervals[figure] ?? [];
  if (typeof low === "number" && typeof high === "number") {
    end = Math.max(end, x(high));
    parts.push(s("line", { class: "whisker", x1: x(low), x2: x(high), y1: middle, y2: middle }));
    for (const at of [low, high]) parts.push(s("line", { class: "whisker", x1: x(at), x2: x(at), y1: middle - 5, y2: middle + 5 }));
  }
  for (const run of one.runs) {
    const at = run[figure];
    if (at !== null && one.runs.length > 1) {
      end = Math.max(end, x(at));
      parts.push(s("circle", { class: "run", cx: x(at), cy: middle, r: 3 }, s("title", {}, `${run.recording}: ${show(figure, at)}`)));
    }
  }
  parts.push(s("text", { class: "value", x: end + 8, y: middle + 4 }, show(figure, value)));
  if (one.note) parts.push(s("text", { class: "note", x: gutter, y: y + BAR + 12 }, s("title", {}, one.note), clip(one.note, width - gutter)));
  return parts;
}
