// Charts over time: stacked stages and causes of slow requests, journal commits, devices, and the host's figures.

import type uPlot from "uplot";

import { Charts, legend, type Line } from "./charts";
import { colourOf, kindColour } from "./colours";
import type { Figure, Recording } from "./data";
import { h } from "./dom";
import { figure, length, short } from "./format";
import type { State } from "./state";

/** Midpoints of a recording's buckets, in seconds. */
function middles(recording: Recording): number[] {
  return Array.from({ length: recording.buckets }, (_, at) => ((at + 0.5) * recording.bucket_ns) / 1e9);
}

/** Stacked cells with a number per name: the total first, so that each line is painted over by those below it. */
function stacked(recording: Recording, cells: number[][], names: string[]): Line[] {
  const used = names.map((_, at) => cells.some((cell) => (cell[at + 1] ?? 0) > 0));
  const sums = Array.from({ length: recording.buckets }, () => 0);
  const lines: Line[] = [];
  for (const [at, name] of names.entries()) {
    if (!used[at]) continue;
    for (const cell of cells) sums[cell[0] ?? 0] = (sums[cell[0] ?? 0] ?? 0) + (cell[at + 1] ?? 0) * 1e3;
    const colour = colourOf(name, names);
    lines.unshift({ label: name, colour, fill: colour, values: [...sums], bars: true, width: 0 });
  }
  return lines;
}

/** Stages and causes. */
export function slowTime(charts: Charts, recording: Recording, state: State): HTMLElement {
  const { slow } = recording;
  const strip = (title: string, names: string[], cells: number[][], choose?: (name: string) => void): HTMLElement => {
    const lines = stacked(recording, cells, names);
    const items = [...lines].reverse().map((line) => ({
      name: line.label.replaceAll("_", " "),
      colour: line.colour,
      ...(choose ? { choose: () => choose(line.label) } : {}),
    }));
    return charts.row({
      title,
      unit: "time of slow requests, by their arrival",
      height: 120,
      times: middles(recording),
      lines,
      show: length,
      legend: legend(items),
      describe: (seconds) => {
        const bucket = Math.floor((seconds * 1e9) / recording.bucket_ns);
        const cell = cells.find((one) => one[0] === bucket);
        if (!cell) return "no slow request";
        const parts = names.flatMap((name, at) => ((cell[at + 1] ?? 0) > 0 ? [`${name} ${length((cell[at + 1] ?? 0) * 1e3)}`] : []));
        return parts.join(" · ");
      },
    });
  };
  return h(
    "div",
    {},
    strip("Stages", slow.stages, slow.stage_cells),
    strip("Causes", slow.causes, slow.cause_cells, (cause) => state.set({ cause: state.selection.cause === cause ? null : cause })),
  );
}

/** Journal commits: each is a bar as long as its duration, at the height of its duration. */
export function commits(charts: Charts, recording: Recording): HTMLElement | null {
  if (recording.commits.length === 0) return null;
  const most = Math.max(...recording.commits.map((commit) => commit.end_ns - commit.start_ns));
  const draw = (plot: uPlot): void => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = kindColour("commit");
    for (const commit of recording.commits) {
      const left = plot.valToPos(commit.start_ns / 1e9, "x", true);
      const right = plot.valToPos(commit.end_ns / 1e9, "x", true);
      const top = plot.valToPos(commit.end_ns - commit.start_ns, "y", true);
      const [from, until] = [Math.max(left, bbox.left), Math.min(right, bbox.left + bbox.width)];
      if (until > from) ctx.fillRect(from, top, Math.max(1.5, until - from), bbox.top + bbox.height - top);
    }
    ctx.restore();
  };
  return charts.row({
    title: "Journal commits",
    unit: "each bar spans one commit; its height is the duration",
    height: 80,
    times: middles(recording),
    lines: [],
    show: length,
    range: [0, most * 1.1],
    draw,
    describe: (seconds) => {
      const at = seconds * 1e9;
      const here = recording.commits.filter((commit) => commit.start_ns <= at && commit.end_ns >= at);
      return here.map((commit) => `${commit.device} ${commit.transaction}: ${length(commit.end_ns - commit.start_ns)}`).join(" · ");
    },
  });
}

/** For each device, figures of its block requests and of the kernel's counters. */
export function devices(charts: Charts, recording: Recording): HTMLElement[] {
  const seconds = recording.bucket_ns / 1e9;
  const times = middles(recording);
  return recording.devices.flatMap(({ device, cells }) => {
    const of = (value: (cell: number[]) => number | null): (number | null)[] => {
      const values: (number | null)[] = times.map(() => 0);
      for (const cell of cells) values[cell[0] ?? 0] = value(cell);
      return values;
    };
    const number = (cell: number[]): number => (cell[1] ?? 0) + (cell[2] ?? 0) + (cell[3] ?? 0);
    const mean = (cell: number[], at: number): number | null => (number(cell) > 0 ? ((cell[at] ?? 0) * 1e3) / number(cell) : null);
    const blue = colourOf("blue", ["blue"]);
    const util = recording.figures.find((one) => one.scope === "device" && one.name === device && one.metric === "util_ratio");
    const [slowest, service] = [kindColour("off-cpu"), kindColour("block-io")];
    return [
      ...(util ? [figureRow(charts, times, util, `${device} %util`, "share of the time with a request in flight")] : []),
      charts.row({
        title: `${device} IOPS`,
        unit: "block requests per second",
        height: 64,
        times,
        lines: [{ label: "requests/s", colour: blue, fill: `${blue}33`, values: of((cell) => number(cell) / seconds), bars: true }],
        show: short,
      }),
      charts.row({
        title: `${device} service`,
        unit: "time in the device",
        height: 80,
        times,
        lines: [
          { label: "slowest", colour: slowest, values: of((cell) => (cell[7] ?? 0) * 1e3), bars: true },
          { label: "mean", colour: service, values: of((cell) => mean(cell, 5)), bars: true },
        ],
        legend: legend([
          { name: "slowest", colour: slowest },
          { name: "mean", colour: service },
        ]),
        show: length,
      }),
    ];
  });
}

function figureRow(charts: Charts, times: number[], of: Figure, title: string, unit: string): HTMLElement {
  const values: (number | null)[] = times.map(() => null);
  for (const cell of of.cells) values[cell[0] ?? 0] = cell[1] ?? null;
  const colour = colourOf(of.scope, ["device", "host", "process", "cgroup", "threads", "interface"]);
  return charts.row({
    title,
    unit,
    height: 64,
    times,
    lines: [{ label: "", colour, fill: `${colour}22`, values, spans: true }],
    show: (value) => figure(of.metric, value),
  });
}

const FIRST = ["host pressure_io_some_ratio", "process user_cpu_ratio", "host dirty_bytes", "process write_bytes_per_second"];

/** Some of the host's figures; the user can add others. */
export function host(charts: Charts, recording: Recording): HTMLElement {
  const times = middles(recording);
  const named = recording.figures.map((one) => ({ one, name: [one.scope, one.name, one.metric].filter(Boolean).join(" ") }));
  const rows = h("div", {});
  const add = (name: string): void => {
    const found = named.find((figure) => figure.name === name);
    if (found) rows.append(figureRow(charts, times, found.one, found.one.metric.replaceAll("_", " "), [found.one.scope, found.one.name].filter(Boolean).join(" ")));
  };
  for (const name of FIRST) {
    const found = named.find(({ one }) => `${one.scope} ${one.metric}` === name);
    if (found) add(found.name);
  }
  const choose = h("select", { "aria-label": "Add a figure of the host", change: () => add(choose.value) });
  choose.append(h("option", { value: "" }, `add one of ${named.length} figures …`));
  for (const { name } of named) choose.append(h("option", { value: name }, name));
  return h("div", {}, rows, named.length > 0 ? h("div", { class: "controls" }, choose) : h("p", { class: "none" }, "The recording holds no samples of the host."));
}
