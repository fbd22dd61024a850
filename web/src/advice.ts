// What to change: the advice of rules, by layer, with the evidence and the unknown inputs.

import type { Advice, Recommendation } from "./data";
import { h } from "./dom";
import { counted, length } from "./format";

/** The most costly first; advice without a measured cost comes last. */
export function advice(advice: Advice): HTMLElement[] {
  const { layers, missing, silent } = advice;
  const given = layers.map(({ layer, given }) => h("div", { class: "layer" }, h("h3", {}, capital(layer)), ...given.map(one)));
  const nothing = h("p", { class: "none" }, "No rule advises a change.");
  const unknown = list("Unknown inputs; rules that need them were not evaluated", missing.map(({ input, why, rules }) => item(input, `${why} (${counted(rules.length, "rule")})`)));
  const quiet = list("Rules that have nothing to advise", silent.map(({ rule, why }) => item(rule, why)));
  return [...(given.length > 0 ? given : [nothing]), unknown, quiet].filter((part) => part !== null);
}

function one(given: Recommendation): HTMLElement {
  const cost = given.cost_ns === null ? "no cost measured" : `cost ${length(given.cost_ns)}${given.cost_requests === null ? "" : ` in ${counted(given.cost_requests, "request")}`}`;
  const changes = given.changes.map(({ setting, old, new: wanted, combination }, at) => h("li", {}, at > 0 ? `${combination} ` : "", h("b", {}, setting), ": ", h("del", {}, old), " → ", h("ins", {}, wanted)));
  const rows: [string, (Node | string)[]][] = [
    ["because", [given.evidence]],
    ["change", [h("ul", {}, ...changes)]],
    ["expect", [given.effect]],
    ["risk", [given.risk]],
    ["verify", [h("code", {}, given.verify)]],
  ];
  return h(
    "article",
    { class: "advice", "data-rule": given.rule },
    h("h4", {}, `${given.rank}. ${given.rule} `, h("span", { class: given.cost_ns === null ? "free" : "cost" }, cost)),
    h("dl", {}, ...rows.flatMap(([name, about]) => [h("dt", {}, name), h("dd", {}, ...about)])),
    h("details", {}, h("summary", {}, "When the rule applies, and its source"), h("p", {}, `${given.condition}.`), h("p", {}, given.source)),
  );
}

function list(title: string, items: HTMLElement[]): HTMLElement | null {
  return items.length > 0 ? h("details", {}, h("summary", {}, `${title} (${items.length})`), h("ul", {}, ...items)) : null;
}

function item(name: string, about: string): HTMLElement {
  return h("li", {}, h("b", {}, name), `: ${about}`);
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
