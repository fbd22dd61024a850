// The top of the page: what was slow, why, and what to change, in sentences; and the data quality section at its end.

import { colourOf } from "./colours";
import type { Recording, Why } from "./data";
import { h } from "./dom";
import { type Clock, count, length, percent } from "./format";
import type { State } from "./state";

/** What was slow, why, what to change. */
export function story(recording: Recording, state: State, clock: Clock): HTMLElement {
  const { story, slow } = recording;
  const sentence = (why: Why): HTMLElement => {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colourOf(why.cause, slow.causes);
    const pick = (): void => (why.root ? state.set({ root: why.root }) : state.set({ cause: why.cause }));
    return h("li", {}, swatch, h("span", {}, why.text, " ", h("button", { type: "button", class: "pick", click: pick }, "show")));
  };
  const change = (why: Why): HTMLElement => h("li", {}, h("span", {}, why.text, " ", h("small", {}, why.cause)));
  const column = (title: string, ...items: HTMLElement[]): HTMLElement | null => (items.length > 0 ? h("div", {}, h("h2", {}, title), h("ul", { class: "sentences" }, ...items)) : null);
  const span = `${clock.date(0)} ${clock.time(0, 0)} – ${clock.time(recording.end_ns, 0)} UTC, ${length(recording.end_ns)}`;
  return h(
    "section",
    { id: "story", "aria-label": "What was slow, why, and what to change" },
    h("p", { class: "when" }, span),
    h("p", { class: "headline" }, story.headline),
    h("p", { class: "speeds" }, story.speeds.join("   ")),
    bars(recording, state),
    h("div", { class: "columns" }, column("Why", ...story.why.map(sentence)), column("The costliest events", ...story.roots.map(sentence)), column("What to change", ...story.change.map(change))),
  );
}

/** The slow requests' time by cause, as one bar. */
function bars(recording: Recording, state: State): HTMLElement | null {
  const { by_cause, causes } = recording.slow;
  const all = by_cause.reduce((sum, total) => sum + total.time_ns, 0);
  if (all === 0) return null;
  const bar = h("div", { class: "causes", role: "group", "aria-label": "Time of slow requests by cause" });
  for (const total of by_cause) {
    const share = total.time_ns / all;
    const text = `${total.cause} ${percent(share)}`;
    const piece = h("button", { type: "button", title: `${text}, ${count(total.requests)} requests, ${length(total.time_ns)}`, click: () => state.set({ cause: state.selection.cause === total.cause ? null : total.cause }) }, h("span", {}, text));
    piece.style.flexGrow = String(share);
    piece.style.borderTopColor = colourOf(total.cause, causes);
    bar.append(piece);
  }
  return bar;
}

/** Data quality: losses, joins, what could not be observed. */
export function basis(recording: Recording, clock: Clock): HTMLElement[] {
  const { loss_totals, losses, joins, unobservable, notes, about, slow } = recording;
  const item = (...children: (string | Node)[]): HTMLElement => h("li", {}, ...children);
  const lost = Object.entries(loss_totals).filter(([, number]) => number > 0);
  const list = (title: string, items: HTMLElement[]): HTMLElement | null => (items.length > 0 ? h("div", {}, h("h3", {}, title), h("ul", {}, ...items)) : null);
  const found = joins.filter(([, number]) => Number(number) > 0).map(([how, number]) => `${count(Number(number))} ${how}`);
  const unjudged = slow.not_judged.map(([api, number]) => `${api} ${count(Number(number))}`);
  const parts = [
    list("Lost", lost.length > 0 ? lost.map(([kind, number]) => item(`${count(number)} ${kind}`)) : [item("nothing")]),
    list("When", losses.slice(0, 50).map((loss) => item(`${clock.time(loss.start_ns)} – ${clock.time(loss.end_ns)}: ${count(loss.count)} ${loss.kind} ${loss.detail}`))),
    list("What could not be observed, and why", unobservable.map(({ what, why }) => item(h("b", {}, what), `: ${why}`))),
    list("How produce partitions were matched to their writes", found.map((text) => item(text))),
    list("Also slow, but excluded because their wait may be intended", unjudged.map((text) => item(text))),
    list("Notes", notes.map((note) => item(note))),
    list("Input", about.facts.map(([name = "", value = ""]) => item(h("b", {}, name), ` ${value}`))),
  ];
  const plan = h("details", {}, h("summary", {}, "Event sources, and how each was observed"), h("ul", {}, ...about.plan.map(([what = "", how = ""]) => item(h("b", {}, what), `: ${how}`))));
  return [...parts.filter((part) => part !== null), ...(about.plan.length > 0 ? [plan] : [])];
}
