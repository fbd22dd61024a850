// Charts over time that share one axis: brushing any of them selects a time range for the whole page. uPlot draws the lines
// and axes. Independent of the page's data.

import uPlot from "uplot";

import { themed } from "./colours";
import { h } from "./dom";
import type { Clock } from "./format";
import type { State } from "./state";

/** Width of the value axis, left of a chart. */
const AXIS = 58;
const SYNC = "time";
/** Seconds between two ticks of the time axis. */
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
/** Up to this height a chart is low. */
const LOW = 80;
const HEADROOM = 1.05;

export interface Line {
  label: string;
  /** A colour, or the name of a colour of the style sheet. */
  colour: string;
  values: (number | null)[];
  fill?: string;
  bars?: boolean;
  width?: number;
  /** Whether the line continues across missing values. */
  spans?: boolean;
}

export interface ChartOptions {
  title: string;
  /** A line beneath the title. */
  unit: string;
  height: number;
  /** Seconds after the origin. */
  times: number[];
  lines: Line[];
  show: (value: number) => string;
  /** Lowest and highest value of the axis; `log` makes it logarithmic. */
  range?: [number, number];
  log?: boolean;
  bare?: boolean;
  /** Draws beneath the lines. */
  draw?: (plot: uPlot) => void;
  /** The text of the tooltip at the pointer. */
  describe?: (seconds: number, value: number) => string;
  legend?: HTMLElement;
}

/** All charts of a recording. */
export class Charts {
  /** Rows that have no chart yet. */
  private rows: { host: HTMLElement; tip: HTMLElement; options: ChartOptions }[] = [];
  private plots: { plot: uPlot; host: HTMLElement; height: number }[] = [];
  private readonly whole: [number, number];
  private frame = 0;

  constructor(
    private readonly state: State,
    private readonly clock: Clock,
    seconds: number,
    private readonly step: number,
  ) {
    this.whole = [0, Math.max(seconds, step)];
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(document.body);
    state.listen((_, changed) => {
      if (changed.has("look")) {
        this.resize();
        this.draw();
      } else if (changed.has("range") || changed.has("zoomed")) this.redraw();
    });
  }

  /** A row of the page: the chart's title and the chart. */
  row(options: ChartOptions): HTMLElement {
    const host = h("div", { class: "plot", tabindex: 0, role: "img", "aria-label": `${options.title}, ${options.unit}, over time` });
    const tip = h("p", { class: "tip", "aria-hidden": "true" });
    const label = h("div", { class: "label" }, h("h3", {}, options.title), h("p", {}, options.unit), options.legend, tip);
    host.addEventListener("keydown", (event) => this.key(event));
    // uPlot needs its width, so it is created when the row is in the page.
    if (this.rows.length === 0) requestAnimationFrame(() => this.makeAll());
    this.rows.push({ host, tip, options });
    return h("div", { class: "strip" }, label, host);
  }

  private makeAll(): void {
    const rows = this.rows;
    this.rows = [];
    // Reads all widths before it creates any chart: otherwise the browser would lay out the whole page for each width.
    const widths = rows.map(({ host }) => host.clientWidth);
    for (const [at, { host, tip, options }] of rows.entries()) {
      this.plots.push({ plot: this.make(host, widths[at] ?? 0, tip, options), host, height: options.height });
    }
  }

  /** Draws everything again, in the theme's colours. */
  redraw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const [min, max] = this.shown();
    for (const { plot } of this.plots) {
      // Immediately, not in uPlot's next task.
      plot.batch(() => {
        plot.setScale("x", { min, max });
        plot.redraw(false, true);
      });
    }
  }

  /** Destroys all charts. */
  destroy(): void {
    for (const { plot } of this.plots) plot.destroy();
    this.plots = [];
    this.rows = [];
  }

  private shown(): [number, number] {
    const { range, zoomed } = this.state.selection;
    return range && zoomed ? [range[0] / 1e9, range[1] / 1e9] : this.whole;
  }

  private resize(): void {
    for (const { plot, host, height } of this.plots) {
      const width = host.clientWidth;
      if (width > 0 && Math.abs(width - plot.width) > 1) plot.setSize({ width, height });
    }
  }

  /** Arrow keys move the selection by a bucket; with Shift, only its end. */
  private key(event: KeyboardEvent): void {
    const direction = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (direction === 0) return;
    event.preventDefault();
    const by = this.step * 1e9 * direction * (event.ctrlKey ? 10 : 1);
    const [from, until] = this.state.selection.range ?? [0, this.step * 1e9];
    const next: [number, number] = event.shiftKey ? [from, until + by] : [from + by, until + by];
    if (next[1] > next[0] && next[0] >= 0 && next[1] <= this.whole[1] * 1e9 + by) this.state.set({ range: next });
  }

  private make(host: HTMLElement, width: number, tip: HTMLElement, options: ChartOptions): uPlot {
    const { lines, times, height } = options;
    const values = lines.map((line) => line.values) as uPlot.AlignedData[1][];
    const text = () => themed("--muted");
    const rule = () => themed("--rule");
    const axis: uPlot.Axis = { stroke: text, font: "11px system-ui, sans-serif", grid: { stroke: rule, width: 1 }, ticks: { show: false } };
    const [min, max] = this.shown();
    return new uPlot(
      {
        width: Math.max(width, 200),
        height,
        padding: [6, 30, 0, 0],
        legend: { show: false },
        cursor: {
          sync: { key: SYNC, setSeries: false },
          drag: { x: true, y: false, setScale: false, dist: 3 },
          points: { show: false },
          y: false,
        },
        scales: {
          x: { time: false, min, max },
          y: { ...(options.log ? { distr: 3 as const } : {}), range: options.range ?? ((_u, _low, high) => [0, high > 0 ? high * HEADROOM : 1]) },
        },
        axes: [
          {
            ...axis,
            size: 22,
            space: 90,
            incrs: STEPS,
            splits: (_u, _axis, from, until, step) => this.clock.round(from, until, step),
            values: (_u, splits, _axis, _space, step) => splits.map((at) => this.clock.time(Math.round(at * 1e6) * 1e3 + 500, step >= 1 ? 0 : step >= 0.1 ? 1 : 3)),
          },
          {
            ...axis,
            size: AXIS,
            space: options.bare ? 1000 : 26,
            show: true,
            // A low chart only has room for its lowest and highest value.
            ...(height <= LOW && !options.range ? { splits: (_u: uPlot, _axis: number, _least: number, most: number) => [0, most / HEADROOM] } : {}),
            values: (_u, splits) => splits.map((value) => (value === null || options.bare ? "" : tidy(options.show(value)))),
          },
        ],
        series: [{}, ...lines.map((line) => this.series(line))],
        hooks: {
          drawAxes: [(plot) => options.draw?.(plot)],
          draw: [(plot) => this.band(plot)],
          setSelect: [(plot) => this.brushed(plot)],
          setCursor: [(plot) => this.point(plot, tip, options)],
        },
      },
      [times, ...values],
      host,
    );
  }

  private series(line: Line): uPlot.Series {
    const paths = line.bars ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
    return {
      stroke: line.colour.startsWith("--") ? () => themed(line.colour) : line.colour,
      width: line.width ?? 1.25,
      spanGaps: line.spans ?? false,
      points: { show: false },
      ...(line.fill ? { fill: line.fill } : {}),
      ...(paths ? { paths } : {}),
    };
  }

  private brushed(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 3) return;
    const from = Math.max(0, plot.posToVal(left, "x"));
    const until = Math.min(this.whole[1], plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (until > from) this.state.set({ range: [from * 1e9, until * 1e9] });
  }

  private band(plot: uPlot): void {
    const { range, zoomed } = this.state.selection;
    if (!range || zoomed) return;
    const { ctx, bbox } = plot;
    const left = Math.max(bbox.left, plot.valToPos(range[0] / 1e9, "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(range[1] / 1e9, "x", true));
    ctx.save();
    ctx.fillStyle = themed("--veil");
    ctx.fillRect(bbox.left, bbox.top, Math.max(0, left - bbox.left), bbox.height);
    ctx.fillRect(right, bbox.top, Math.max(0, bbox.left + bbox.width - right), bbox.height);
    ctx.fillStyle = themed("--accent");
    ctx.fillRect(left, bbox.top, 1, bbox.height);
    ctx.fillRect(right - 1, bbox.top, 1, bbox.height);
    ctx.restore();
  }

  private point(plot: uPlot, tip: HTMLElement, options: ChartOptions): void {
    const { left, top, idx } = plot.cursor;
    if (left === undefined || left < 0 || idx === null || idx === undefined) {
      tip.textContent = "";
      return;
    }
    const seconds = plot.posToVal(left, "x");
    const text = options.describe?.(seconds, plot.posToVal(top ?? 0, "y"));
    const values = options.lines.map((line) => ({ line, value: line.values[idx] }));
    const lines = values.flatMap(({ line, value }) => (typeof value === "number" ? [`${line.label} ${options.show(value)}`] : []));
    tip.textContent = `${this.clock.time(seconds * 1e9)} ${text ?? lines.join(" · ")}`;
  }
}

/** A round value without insignificant digits: `10.0 ms` becomes `10 ms`. */
function tidy(value: string): string {
  return /^0(\.0+)? /.test(value) ? "0" : value.replace(/^(\d+)\.0+ /, "$1 ");
}

/** Names and their colours, as buttons or as text. */
export function legend(items: { name: string; colour: string; choose?: () => void }[]): HTMLElement {
  const list = h("ul", { class: "legend" });
  for (const { name, colour, choose } of items) {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colour;
    list.append(h("li", {}, choose ? h("button", { type: "button", click: choose }, swatch, name) : h("span", {}, swatch, name)));
  }
  return list;
}
