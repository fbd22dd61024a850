// The page of a comparison: did the change help? A summary, p99.9 over the time of the run on one scale, one bar per step,
// differences with their intervals, and causes. The Rust side computes the statistics.

import "./compare.css";

import { bars } from "./bars";
import { colourOf } from "./colours";
import { type Comparison, type Configuration, type Difference, FIGURES } from "./comparison";
import type { Page } from "./data";
import { h, section } from "./dom";
import { change, chosen, count, counted, length, show, spread } from "./figures";
import { heatrows } from "./heatrows";

const SECTIONS: [string, string][] = [["heat", "Over time"], ["steps", "Steps"], ["differences", "Differences"], ["causes", "Causes"], ["runs", "Runs"], ["basis", "Basis"]];

/** Returns a function that shows the recording of a name, if the page has it. */
type Shows = (name: string) => (() => void) | undefined;

/** The whole page; `view` selects the recording or the comparison, if there are several. */
export function comparePage(page: Page, comparison: Comparison, turn: () => void, view: HTMLElement | null, shows: Shows): HTMLElement[] {
  document.title = `${comparison.configurations.map((one) => one.configuration).join(" · ")} · brokerscope`;
  const go = (id: string) => (event: Event): void => {
    event.preventDefault();
    document.getElementById(id)?.scrollIntoView();
  };
  const header = h(
    "header",
    { class: "top" },
    h("h1", {}, "brokerscope ", view ?? h("span", {}, counted(comparison.configurations.length, "configuration"))),
    h("nav", { "aria-label": "Sections" }, ...SECTIONS.map(([id, name]) => h("a", { href: `#${id}`, click: go(id) }, name))),
    h("button", { type: "button", class: "theme", title: "Dark or light (t)", click: turn }, "◐", h("span", { class: "hidden" }, "Dark or light")),
    h("p", { class: "keys" }, "← → ↑ ↓ a cell of the map · t theme"),
  );
  return [header, h("main", {}, ...sections(comparison, shows)), h("footer", {}, `${page.written_by}. This page is one file and makes no network requests.`)];
}

function sections(comparison: Comparison, shows: Shows): HTMLElement[] {
  const { summary } = comparison;
  return [
    story(comparison),
    section("heat", "p99.9 over the time of the run", "One row per configuration, with its runs overlaid, on one scale. A cell with fewer than 1,000 requests shows its slowest request.", heatrows(comparison)),
    section("steps", "Step by step", `Bars with ${Math.round(100 * summary.confidence)} % intervals; each dot is one run.`, bars(comparison)),
    section("differences", "Differences", `From ${summary.base}, with ${Math.round(100 * summary.confidence)} % intervals. No difference: the interval contains zero.`, ...comparison.configurations.slice(1).map((one) => differences(comparison, one))),
    section("causes", "What slow requests waited for", `Requests of ${chosen(summary.slo_ns)} or longer: their time per minute of the run.`, causes(comparison)),
    section("runs", "Runs", "", runs(comparison, shows)),
    section("basis", "What this rests on", "", basis(comparison)),
  ];
}

/** Which configuration is better, in a sentence, and a sentence per configuration. */
function story({ configurations, differences: all, summary }: Comparison): HTMLElement {
  const objective = chosen(summary.slo_ns);
  const misses = all.filter((one) => one.figure === "slo_miss_ratio");
  const having = (outcome: string): string[] => misses.flatMap((one) => (one.outcome === outcome && one.configuration !== null ? [one.configuration] : []));
  const [fewer, more] = [having("lower"), having("higher")];
  const sentences: string[] = [];
  if (fewer.length > 0) sentences.push(`${list(fewer)} ${fewer.length > 1 ? "miss" : "misses"} ${objective} less often than ${summary.base}`);
  if (more.length > 0) sentences.push(`${list(more)} ${more.length > 1 ? "miss" : "misses"} ${objective} more often than ${summary.base}`);
  const headline = sentences.length > 0 ? sentences.join("; ") : `Nothing shows that any configuration misses ${objective} more or less often than ${summary.base}`;
  const what = [summary.apis.join(", "), "requests", summary.topics.length > 0 ? `for ${summary.topics.join(", ")}` : ""].filter((part) => part).join(" ");
  const sentence = (one: Configuration): HTMLElement => {
    const of = (figure: string): Difference | undefined => all.find((it) => it.configuration === one.configuration && it.figure === figure);
    const parts = [["slo_miss_ratio", "misses"], ["latency_p999_ns", "p99.9"], ["latency_p99_ns", "p99"], ["requests_per_s", "requests/s"]].map(([figure = "", name = ""]) => {
      const it = of(figure);
      return it ? `${name} ${show(figure, it.base_value)} → ${show(figure, it.value)} (${words(it)})` : "";
    });
    return h("li", {}, h("span", {}, h("b", {}, one.configuration), ` ${parts.join(", ")}`));
  };
  return h(
    "section",
    { id: "story", "aria-label": "Did the change help?" },
    h("p", { class: "when" }, `${what}; the base is ${summary.base}; the objective is ${objective}`),
    h("p", { class: "headline" }, headline),
    h("ul", { class: "sentences wide" }, ...configurations.slice(1).map(sentence)),
  );
}

function list(names: string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""}`;
}

const WORDS: Record<string, string> = { "no-difference": "no difference", "too-short": "too short to say", untested: "not tested" };

/** Whether the new value is better; undefined for the request rate, which also drops if requests become larger. */
function isBetter(one: Difference): boolean | undefined {
  return one.figure === "requests_per_s" ? undefined : (one.outcome === "higher") === (one.figure === "record_bytes_per_s");
}

function words(one: Difference): string {
  const better = isBetter(one);
  return WORDS[one.outcome] ?? (better === undefined ? one.outcome : `${one.outcome}, ${better ? "better" : "worse"}`);
}

function differences({ differences: all, summary }: Comparison, of: Configuration): HTMLElement {
  const own = all.filter((one) => one.configuration === of.configuration);
  const rows = FIGURES.flatMap(([figure, title]) => {
    const one = own.find((it) => it.figure === figure);
    if (!one) return [];
    const better = one.outcome in WORDS ? undefined : isBetter(one);
    const verdict = better === undefined ? "none" : better ? "good" : "bad";
    const interval = one.low === null || one.high === null ? "–" : spread(one.change_is, one.low, one.high);
    return [row([title, show(figure, one.base_value), show(figure, one.value), change(one.change_is, one.change), interval, h("span", { class: verdict, title: one.why ?? undefined }, words(one), one.why ? h("small", {}, ` ${one.why}`) : null)], 1)];
  });
  return table(`${of.configuration} against ${summary.base}`, ["figure", summary.base, of.configuration, "change", "interval", "outcome"], rows, [1, 2, 3, 4]);
}

function causes({ configurations }: Comparison): HTMLElement {
  const totals = new Map<string, number>();
  for (const one of configurations) for (const { cause, time_ns } of one.causes) totals.set(cause, (totals.get(cause) ?? 0) + aMinute(one, time_ns));
  const names = [...totals].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const most = Math.max(1, ...configurations.map((one) => one.causes.reduce((sum, { time_ns }) => sum + aMinute(one, time_ns), 0)));
  const stack = (one: Configuration): HTMLElement => {
    const bar = h("div", { class: "stack", role: "img", "aria-label": one.causes.map(({ cause, time_ns }) => `${cause} ${length(aMinute(one, time_ns))} a minute`).join(", ") || "nothing was slow" });
    for (const { cause, time_ns, requests } of one.causes) {
      const text = `${cause}: ${length(aMinute(one, time_ns))} a minute, ${counted(requests, "request")}`;
      const piece = h("span", { title: text });
      piece.style.width = `${(100 * aMinute(one, time_ns)) / most}%`;
      piece.style.background = colourOf(cause, names);
      bar.append(piece);
    }
    return h("div", { class: "stacked" }, h("span", { class: "name", title: one.configuration }, one.configuration), bar);
  };
  const legend = h("ul", { class: "legend" });
  for (const name of names) {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colourOf(name, names);
    legend.append(h("li", {}, h("span", {}, swatch, name)));
  }
  const rows = configurations.flatMap((one) => one.causes.map(({ cause, requests, time_ns }) => row([one.configuration, cause, count(requests), length(time_ns), length(aMinute(one, time_ns))], 2)));
  return h("div", {}, ...configurations.map(stack), legend, table("", ["configuration", "cause", "requests", "time", "a minute"], rows, [2, 3, 4]));
}

function aMinute(one: Configuration, time_ns: number): number {
  return one.seconds ? (time_ns * 60) / one.seconds : 0;
}

function runs({ configurations }: Comparison, shows: Shows): HTMLElement {
  const name = (recording: string): string | HTMLElement => {
    const click = shows(recording);
    return click ? h("button", { type: "button", title: "Show this recording", click }, recording) : recording;
  };
  const rows = configurations.flatMap((one) =>
    one.runs.map((run) => row([one.configuration, name(run.recording), count(run.requests), length((run.seconds ?? 0) * 1e9), ...FIGURES.map(([figure]) => show(figure, run[figure]))], 2)),
  );
  return table("", ["configuration", "recording", "requests", "time", ...FIGURES.map(([, title]) => title)], rows, [2, 3, ...FIGURES.map((_, at) => 4 + at)]);
}

function basis({ configurations, summary }: Comparison): HTMLElement {
  const together = Math.max(...configurations.flatMap((one) => one.runs.map((run) => (run.blocks_drawn_together * run.block_ns) / 1e9)));
  const method = `Intervals: ${count(summary.draws)} bootstrap resamples of blocks of time (up to ${together} s, as long as a run is autocorrelated), and of whole runs where there are several; the same for each report.`;
  return h("ul", {}, ...[method, ...summary.notes].map((note) => h("li", {}, note)));
}

function row(cells: (string | HTMLElement)[], numbers: number): HTMLElement {
  return h("tr", {}, ...cells.map((cell, at) => (at === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: at >= numbers && typeof cell === "string" ? "number" : undefined }, cell))));
}

function table(caption: string, headings: string[], rows: HTMLElement[], numbers: number[]): HTMLElement {
  const head = h("tr", {}, ...headings.map((heading, at) => h("th", { scope: "col", class: numbers.includes(at) ? "number" : undefined }, heading)));
  return h("div", { class: "table compared", tabindex: 0, role: "region", "aria-label": caption || headings.join(", ") }, h("table", {}, caption ? h("caption", {}, caption) : null, h("thead", {}, head), h("tbody", {}, ...rows)));
}
