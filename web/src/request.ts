// The section of one slow request: its client, why it was slow, its waterfall, and what to change.

import { colourOf } from "./colours";
import type { Detail, Recording } from "./data";
import { h } from "./dom";
import { type Clock, length, percent, size } from "./format";
import type { State } from "./state";
import { evidenceList, kindLegend, waterfall } from "./waterfall";

/** The selected request, or the slowest. */
export function request(recording: Recording, state: State, clock: Clock): { element: HTMLElement; draw: () => void } {
  const holder = h("div", { class: "request" });
  let width = 0;
  const chosen = (): Detail | undefined => recording.requests.find((detail) => detail.id === state.selection.request) ?? recording.requests[0];
  const draw = (): void => {
    const detail = chosen();
    if (!detail) {
      holder.replaceChildren(h("p", { class: "none" }, "No request was slow."));
      return;
    }
    const barText = h("p", { class: "bar-text", "aria-live": "polite" }, "Point at a bar to read it.");
    const picture = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Waterfall" });
    holder.replaceChildren(head(detail, clock), stages(recording, detail), picture, barText, kindLegend(recording, detail), notes(detail));
    picture.append(waterfall(recording, detail, Math.max(600, width), (text) => (barText.textContent = text)));
  };
  state.listen((_, changed) => {
    if (changed.has("request") || changed.has("look")) draw();
  });
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry?.contentRect.width ?? 0);
    if (now === width) return;
    width = now;
    requestAnimationFrame(draw);
  }).observe(holder);
  return { element: holder, draw };
}

function head(detail: Detail, clock: Clock): HTMLElement {
  const facts: [string, string][] = [
    ["arrived", clock.time(detail.arrival_ns)],
    ["took", length(detail.end_ns - detail.arrival_ns)],
    ["client", `${detail.client_id ?? ""} ${detail.client}`.trim()],
    ["bytes", size(detail.request_bytes)],
    ["acks", detail.acks === null ? "" : String(detail.acks)],
    ["partitions", detail.partitions.map(([name, bytes]) => `${name} (${size(Number(bytes))})`).join(" ")],
    ["cause", detail.chain.join(" ← ") || detail.cause],
    ["root", detail.root],
    ["confidence", detail.confidence],
  ];
  const list = h("dl", { class: "facts" });
  for (const [name, value] of facts) if (value) list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  return h("div", {}, h("h3", {}, `${detail.api} v${detail.api_version}, correlation id ${detail.correlation_id}`), list);
}

/** Where its time went, as text for printing and for screen readers. */
function stages(recording: Recording, detail: Detail): HTMLElement {
  const all = Math.max(1, detail.end_ns - detail.arrival_ns);
  const list = h("ul", { class: "legend", "aria-label": "Stages" });
  for (const [at, name] of recording.slow.stages.entries()) {
    const time = detail.stages[at] ?? 0;
    if (time <= 0) continue;
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colourOf(name, recording.slow.stages);
    list.append(h("li", {}, swatch, `${name.replaceAll("_", " ")} ${length(time)} (${percent(time / all)})`));
  }
  return list;
}

function notes(detail: Detail): HTMLElement {
  const list = h("div", { class: "notes" }, h("details", { open: document.documentElement.dataset["printing"] !== undefined }, h("summary", {}, "The evidence in words"), evidenceList(detail)));
  for (const advice of detail.advice) list.append(h("p", {}, h("b", {}, "To change: "), advice));
  for (const { stage, what, tells } of detail.doubts) {
    list.append(h("p", { class: "note" }, h("b", {}, "Not decided: "), `${what} (${stage.replaceAll("_", " ")}). What would show it: ${tells}.`));
  }
  if (detail.cut) list.append(h("p", { class: "note" }, "Some threads or block requests around it are not shown: there were too many."));
  for (const loss of detail.losses) list.append(h("p", { class: "note" }, `Lost near it: ${loss}`));
  return list;
}
