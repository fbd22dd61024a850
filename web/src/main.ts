// Assembles the page and handles the keyboard.

import "uplot/dist/uPlot.min.css";
import "./style.css";

import { advice } from "./advice";
import { Charts } from "./charts";
import { isDark } from "./colours";
import { comparePage } from "./compare";
import { type Page, read, type Recording, rowsOf } from "./data";
import { h, section } from "./dom";
import { flame } from "./flame";
import { Clock, counted } from "./format";
import { heatmap } from "./heatmap";
import { request } from "./request";
import { COMPARISON, State } from "./state";
import { basis, story } from "./story";
import { files, partitionGrid, partitions, requests, roots } from "./tables";
import { threads } from "./threads";
import { commits, devices, host, slowTime } from "./timeline";

const page = read();
const state = new State(page.comparison ? COMPARISON : 0);
const place = document.getElementById("page") ?? document.body;
let drawn: { charts: Charts; step: (by: number) => void } | null = null;

function show(): void {
  const { recording: chosen } = state.selection;
  const recording = page.recordings[chosen] ?? page.recordings[0];
  drawn?.charts.destroy();
  drawn = null;
  state.forget();
  state.listen((_, changed) => {
    if (changed.has("recording")) show();
  });
  if (page.comparison && (chosen === COMPARISON || !recording)) {
    place.replaceChildren(...comparePage(page, page.comparison, turn, view(page, state), (name) => recordingOf(page, name)));
    return;
  }
  if (!recording) {
    place.replaceChildren(h("main", {}, h("p", {}, "This page holds no recording.")));
    return;
  }
  document.title = `${recording.about.name} · brokerscope`;
  const clock = new Clock(recording.origin_ns);
  const charts = new Charts(state, clock, recording.end_ns / 1e9, recording.bucket_ns / 1e9);
  const rows = rowsOf(recording);
  const list = requests(recording, rows, state, clock);
  const one = request(recording, state, clock);
  place.replaceChildren(
    header(page, recording, clock),
    h(
      "main",
      {},
      story(recording, state, clock),
      section("time", "Over time", "Drag across any chart to select a stretch of time: everything on the page follows. Times are UTC.", heatmap(charts, recording), slowTime(charts, recording, state), commits(charts, recording), ...devices(charts, recording), threads(charts, recording, state)),
      section("request", "One slow request", "Every stage, wait and device request of it on one axis of time; what its threads and others did meanwhile.", one.element),
      section("requests", "Slow requests", "", list.element),
      section("roots", "Root events and their victims", "One commit, collection or slow write, and the requests that waited for it.", roots(recording, rows, state, clock)),
      recording.advice ? section("advice", "Advice", "The costliest first, each with its evidence; the comparison under “verify” shows whether it helped.", ...advice(recording.advice)) : null,
      section("partitions", "Topics × partitions", "One cell per partition; stronger colour: more slow requests.", partitionGrid(recording, state), partitions(recording, state)),
      section("host", "Host", "What the kernel counts, once a second.", host(charts, recording)),
      section("flames", "Where threads spent their time", "Outermost function on top; click a frame to zoom, the frame above it to go back.", flame(recording, state, "on_cpu", "On CPU"), flame(recording, state, "off_cpu", "Off CPU")),
      section("files", "Files", "", files(recording, state)),
      section("basis", "What this rests on", "", ...basis(recording, clock)),
    ),
    h("footer", {}, `${page.written_by}. This page is one file and makes no network requests.`),
  );
  const step = (by: number): void => {
    const detailed = list.within().filter((row) => recording.requests.some((detail) => detail.id === row.id));
    const now = detailed.findIndex((row) => row.id === state.selection.request);
    const next = detailed[Math.min(detailed.length - 1, Math.max(0, now + by))];
    if (next) state.set({ request: next.id });
  };
  drawn = { charts, step };
  state.listen((selection, changed) => {
    if (changed.has("request") && selection.request) document.getElementById("request")?.scrollIntoView({ block: "nearest" });
  });
  if (state.selection.request) requestAnimationFrame(() => document.getElementById("request")?.scrollIntoView());
}

function header(page: Page, recording: Recording, clock: Clock): HTMLElement {
  const search = h("input", { type: "search", id: "search", placeholder: "client, topic, cause … ( / )", "aria-label": "Search", value: state.selection.search });
  search.addEventListener("input", () => state.set({ search: search.value.trim() }));
  const chosen = h("div", { class: "chosen", role: "status" });
  const updateChips = (): void => {
    const { range, cause, root, search: words, zoomed } = state.selection;
    if (search.value.trim() !== words) search.value = words;
    const chip = (text: string, drop: () => void): HTMLElement => h("button", { type: "button", class: "chip", click: drop, title: "Drop" }, text, h("span", { "aria-hidden": "true" }, " ×"));
    const chips: HTMLElement[] = [];
    if (range) chips.push(chip(`${clock.time(range[0])} – ${clock.time(range[1])}`, () => state.set({ range: null, zoomed: false })));
    if (range) chips.push(h("button", { type: "button", class: "chip", click: () => state.set({ zoomed: !zoomed }) }, zoomed ? "whole axis (z)" : "zoom (z)"));
    if (cause) chips.push(chip(cause, () => state.set({ cause: null })));
    if (root) chips.push(chip(root, () => state.set({ root: null })));
    chosen.replaceChildren(...chips);
  };
  state.listen(updateChips);
  updateChips();
  const links: [string, string][] = [["time", "Time"], ["request", "Waterfall"], ["requests", "Requests"], ["roots", "Roots"], ...(recording.advice ? [["advice", "Advice"] as [string, string]] : []), ["partitions", "Partitions"], ["host", "Host"], ["flames", "Flames"], ["files", "Files"], ["basis", "Basis"]];
  const go = (id: string) => (event: Event): void => {
    event.preventDefault();
    document.getElementById(id)?.scrollIntoView({ behavior: "auto" });
  };
  return h(
    "header",
    { class: "top" },
    h("h1", {}, "brokerscope ", view(page, state) ?? h("span", {}, recording.about.name)),
    h("nav", { "aria-label": "Sections" }, ...links.map(([id, name]) => h("a", { href: `#${id}`, click: go(id) }, name))),
    search,
    chosen,
    h("button", { type: "button", class: "theme", title: "Dark or light (t)", click: turn }, "◐", h("span", { class: "hidden" }, "Dark or light")),
    h("p", { class: "keys" }, "/ search · j k next, previous request · ← → move the selection · z zoom · Esc clear · t theme"),
  );
}

/** The control that selects a recording or their comparison, if there are several. */
function view(page: Page, state: State): HTMLElement | null {
  if (page.recordings.length + (page.comparison ? 1 : 0) < 2) return null;
  const views = h("select", { "aria-label": "Recording", change: () => look(Number(views.value)) });
  if (page.comparison) views.append(h("option", { value: COMPARISON, selected: state.selection.recording === COMPARISON }, `all ${page.recordings.length}, compared`));
  for (const [at, { about }] of page.recordings.entries()) views.append(h("option", { value: at, selected: at === state.selection.recording }, about.name));
  return views;
}

function look(recording: number): void {
  state.set({ recording, range: null, zoomed: false, cause: null, root: null, request: null });
  scrollTo(0, 0);
}

/** Shows the recording of that name, if the page has it. */
function recordingOf(page: Page, name: string): (() => void) | undefined {
  const at = page.recordings.findIndex(({ about }) => about.name === name);
  return at < 0 ? undefined : () => look(at);
}

function turn(): void {
  document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
  state.look();
}

addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  if (event.metaKey || event.altKey || event.ctrlKey) return;
  const act: Record<string, () => void> = {
    "/": () => document.getElementById("search")?.focus(),
    j: () => drawn?.step(1),
    k: () => drawn?.step(-1),
    z: () => state.set({ zoomed: !state.selection.zoomed && state.selection.range !== null }),
    t: turn,
    Escape: () => state.clear(),
  };
  const found = act[event.key];
  if (found) {
    event.preventDefault();
    found();
  }
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.look());
// Paper is light and narrower than most screens, and the browser prints as soon as the handler returns.
addEventListener("beforeprint", () => {
  const root = document.documentElement;
  root.dataset["printing"] = root.dataset["theme"] ?? "";
  root.dataset["theme"] = "light";
  state.look();
});
addEventListener("afterprint", () => {
  const root = document.documentElement;
  const theme = root.dataset["printing"];
  delete root.dataset["printing"];
  if (theme) root.dataset["theme"] = theme;
  else delete root.dataset["theme"];
  state.look();
});

show();
place.dataset["ready"] = page.comparison ? "comparison" : counted(page.recordings.length, "recording");
