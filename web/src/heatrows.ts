// p99.9 over the time of the run: one row per configuration, on one logarithmic scale.

import type { Comparison } from "./comparison";
import { h, s } from "./dom";
import { chosen, length } from "./figures";
import { clip, picture, ticks } from "./picture";
import { scale } from "./scale";

const LEVELS = 7;
const ROW = 26;
const GAP = 3;
const AXIS = 34;

/** The map with its scale. */
export function heatrows(comparison: Comparison): HTMLElement {
  const { over_time: rows } = comparison;
  const values = rows.flatMap((row) => row.cells.filter((cell): cell is number => cell !== null));
  if (values.length === 0) return h("p", { class: "none" }, "No request was answered.");
  const [lowest, highest] = [Math.max(1, Math.min(...values)), Math.max(1, ...values)];
  const level = (value: number): number => {
    const share = highest / lowest < 1.01 ? 0 : Math.log(value / lowest) / Math.log(highest / lowest);
    return Math.min(LEVELS - 1, Math.max(0, Math.floor(share * LEVELS)));
  };
  const cells = Math.max(...rows.map((row) => row.cells.length));
  const each = (rows[0]?.bucket_ns ?? 1e9) / 1e9;
  const tip = h("p", { class: "tip", role: "status" }, "\u00a0");
  const at = { row: 0, cell: 0 };
  let frame: SVGRectElement | null = null;
  let place: (row: number, cell: number) => [number, number, number] = () => [0, 0, 0];
  const point = (row: number, cell: number): void => {
    [at.row, at.cell] = [Math.min(rows.length - 1, Math.max(0, row)), Math.min(cells - 1, Math.max(0, cell))];
    const found = rows[at.row];
    const value = found?.cells[at.cell];
    tip.textContent = `${found?.configuration ?? ""}, ${seconds(at.cell * each)} to ${seconds((at.cell + 1) * each)}: ${typeof value === "number" ? `p99.9 ${length(value)}` : "no request"}`;
    const [x, y, width] = place(at.row, at.cell);
    for (const [name, number] of [["x", x], ["y", y], ["width", width], ["height", ROW]] as const) frame?.setAttribute(name, String(number));
    frame?.setAttribute("visibility", "visible");
  };

  const draw = (width: number): SVGSVGElement => {
    const gutter = width < 700 ? 110 : 190;
    const span = width - gutter - 8;
    const x = (cell: number): number => gutter + (cell / cells) * span;
    const y = (row: number): number => row * (ROW + GAP);
    const bottom = y(rows.length);
    const svg = s("svg", { class: "heatrows", width, height: bottom + AXIS });
    for (const [row, { configuration, cells: values }] of rows.entries()) {
      svg.append(s("text", { x: 0, y: y(row) + ROW / 2 + 4 }, s("title", {}, configuration), clip(configuration, gutter - 8)));
      svg.append(s("rect", { class: "empty", x: gutter, y: y(row), width: span, height: ROW }));
      for (const [cell, value] of values.entries()) {
        if (value !== null) svg.append(s("rect", { class: `heat${level(value)}`, x: x(cell), y: y(row), width: x(cell + 1) - x(cell) + 0.4, height: ROW }));
      }
    }
    for (const tick of ticks(cells * each, width < 700 ? 4 : 10)) {
      const here = x(tick / each);
      svg.append(s("line", { class: "tick", x1: here, x2: here, y1: bottom, y2: bottom + 4 }));
      svg.append(s("text", { class: "tick", x: here, y: bottom + 16, "text-anchor": tick === 0 ? "start" : here > width - 30 ? "end" : "middle" }, seconds(tick)));
    }
    svg.append(s("text", { class: "tick", x: gutter, y: bottom + 30 }, `time of the run; each cell is ${seconds(each)}`));
    place = (row, cell) => [x(cell), y(row), x(cell + 1) - x(cell)];
    frame = s("rect", { class: "cursor", visibility: "hidden" });
    svg.append(frame);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const [left, top] = [event.clientX - box.left, event.clientY - box.top];
      if (left >= gutter && top < bottom) point(Math.floor(top / (ROW + GAP)), Math.floor(((left - gutter) / span) * cells));
    });
    return svg;
  };

  const map = picture(`p99.9 of ${rows.map((row) => row.configuration).join(", ")} over the time of the run, from ${length(lowest)} to ${length(highest)}`, draw);
  map.addEventListener("keydown", (event) => {
    const by: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = by[event.key];
    if (!step) return;
    event.preventDefault();
    point(at.row + step[0], at.cell + step[1]);
  });
  const bound = (step: number): string => length(lowest * (highest / lowest) ** (step / LEVELS));
  const { slo_ns } = comparison.summary;
  const objective = slo_ns > lowest && slo_ns < highest ? { at: Math.log(slo_ns / lowest) / Math.log(highest / lowest), text: `objective ${chosen(slo_ns)}` } : undefined;
  const blocks = Array.from({ length: LEVELS }, (_, level) => ({ level, from: bound(level) }));
  return h("div", {}, map, scale({ title: "p99.9 of a cell", blocks, until: length(highest), mark: objective }), tip);
}

function seconds(value: number): string {
  return value >= 600 ? `${Number((value / 60).toFixed(1))} min` : `${Number(value.toFixed(1))} s`;
}
