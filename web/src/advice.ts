// What to change: the advice of rules, by layer, with the evidence and the unknown inputs.

import type { Advice, Recommendation } from "./data";
import { h } from "./dom";
import { counted, length } from "./format";

/** The most costly first; advice without a measured cost comes last. */
export function advice(advice: Advice): HTMLElement[] {
  const { layers, missing, silent } = advice;
  const sections = layers.map(({ layer, recommendations }) => h("div", { class: "layer" }, h("h3", {}, capital(layer)), ...recommendations.map(one)));
  const nothing = h("p", { class: "none" }, "No rule advises a change.");
  const unknown = list("Unknown inputs; rules that need them were not evaluated", missing.map(({ input, why, rules }) => item(input, `${why} (${counted(rules.length, "rule")})`)));
  const quiet = list("Rules that have nothing to advise", silent.map(({ rule, why }) => item(rule, why)));
  return [...(sections.length > 0 ? sections : [nothing]), unknown, quiet].filter((part) => part !== null);
}

function one(advice: Recommendation): HTMLElement {
  const cost = advice.cost_ns === null ? "no cost measured" : `cost ${length(advice.cost_ns)}${advice.cost_requests === null ? "" : ` in ${counted(advice.cost_requests, "request")}`}`;
  const changes = advice.changes.map(({ setting, old, new: wanted, combination }, at) => h("li", {}, at > 0 ? `${combination} ` : "", h("b", {}, setting), ": ", h("del", {}, old), " → ", h("ins", {}, wanted)));
  const rows: [string, (Node | string)[]][] = [
    ["because", [advice.evidence]],
    ["change", [h("ul", {}, ...changes)]],
    ["expect", [advice.effect]],
    ["risk", [advice.risk]],
    ["verify", [h("code", {}, advice.verify)]],
  ];
  return h(
    "article",
    { class: "advice", "data-rule": advice.rule },
    h("h4", {}, `${advice.rank}. ${advice.rule} `, h("span", { class: advice.cost_ns === null ? "free" : "cost" }, cost)),
    h("dl", {}, ...rows.flatMap(([name, about]) => [h("dt", {}, name), h("dd", {}, ...about)])),
    h("details", {}, h("summary", {}, "When the rule applies, and its source"), h("p", {}, `${advice.condition}.`), h("p", {}, advice.source)),
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
