// Flame graphs of time on and off the CPU in the selected time range: outermost frames on top, click to zoom.

import type { Recording, Stack } from "./data";
import { h, s } from "./dom";
import { length, percent } from "./format";
import type { State } from "./state";

const ROW = 17;
const NARROWEST = 1.2;
const NARROWEST_GRAPH = 300;
const DEEPEST = 60;

interface Frame {
  name: string;
  time: number;
  children: Map<string, Frame>;
}

/** The flame graph of one thread state. */
export function flame(recording: Recording, state: State, which: "on_cpu" | "off_cpu", title: string): HTMLElement {
  const stacks = recording.flames[which];
  const figure = h("figure", { class: "flame", id: which });
  if (stacks.stacks.length === 0) {
    figure.append(h("h3", {}, title), h("p", { class: "none" }, "No samples."));
    return figure;
  }
  let path: string[] = [];
  let width = 0;
  const show = (): void => {
    // Not laid out yet: drawn once it has a width.
    if (width === 0) return;
    const root = fold(recording, stacks, state.selection.range);
    figure.replaceChildren(...picture(Math.max(NARROWEST_GRAPH, width), root, title, path, state.selection.search, (next) => {
      path = next;
      show();
    }));
  };
  state.listen((_, changed) => {
    if (changed.has("range") || changed.has("search") || changed.has("look")) show();
  });
  // Drawing only changes the height.
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry?.contentRect.width ?? 0);
    if (now === width || now === 0) return;
    width = now;
    requestAnimationFrame(show);
  }).observe(figure);
  return figure;
}

function fold(recording: Recording, stacks: Stack, range: [number, number] | null): Frame {
  const { buckets_each, frames } = recording.flames;
  const width = buckets_each * recording.bucket_ns;
  const root: Frame = { name: "all", time: 0, children: new Map() };
  for (const [at, stack] of stacks.stacks.entries()) {
    let time = 0;
    for (const [bucket = 0, micros = 0] of stacks.cells[at] ?? []) {
      if (!range || (bucket * width < range[1] && (bucket + 1) * width > range[0])) time += micros;
    }
    if (time === 0) continue;
    root.time += time;
    let here = root;
    for (const number of stack.slice(0, DEEPEST)) {
      const name = frames[number] ?? "?";
      let child = here.children.get(name);
      if (!child) {
        child = { name, time: 0, children: new Map() };
        here.children.set(name, child);
      }
      child.time += time;
      here = child;
    }
  }
  return root;
}

function picture(width: number, root: Frame, title: string, path: string[], search: string, zoom: (path: string[]) => void): Element[] {
  let top = root;
  const above: Frame[] = [];
  for (const name of path) {
    const next = top.children.get(name);
    if (!next) break;
    above.push(top);
    top = next;
  }
  // One listener for thousands of frames.
  const ways = new WeakMap<Element, string[]>();
  const click = ({ target }: Event): void => {
    const way = target instanceof Element ? ways.get(target.closest("g.frame") ?? target) : undefined;
    if (way) zoom(way);
  };
  const svg = s("svg", { width, role: "img", "aria-label": `Flame graph: ${title}`, click });
  let deepest = 0;
  let matched = 0;
  const wanted = search.toLowerCase();
  const place = (frame: Frame, depth: number, left: number, span: number, way: string[], within: boolean): void => {
    if (span < NARROWEST) return;
    deepest = Math.max(deepest, depth);
    const hit = wanted.length > 1 && frame.name.toLowerCase().includes(wanted);
    if (hit && !within) matched += frame.time;
    const text = `${shown(frame.name)}: ${length(frame.time * 1e3)}, ${percent(frame.time / Math.max(1, root.time))}`;
    const group = s("g", { class: `frame ${kind(frame.name, depth)}${hit ? " hit" : ""}` }, s("title", {}, text));
    ways.set(group, way);
    group.append(s("rect", { x: left, y: depth * ROW, width: Math.max(0.4, span - 0.6), height: ROW - 1 }));
    const room = Math.floor((span - 6) / 6.3);
    if (room > 3) {
      const name = shown(frame.name);
      group.append(s("text", { x: left + 3, y: depth * ROW + 12 }, name.length <= room ? name : `${name.slice(0, room - 1)}…`));
    }
    svg.append(group);
    let at = left;
    for (const child of [...frame.children.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const part = (child.time / frame.time) * span;
      place(child, depth + 1, at, part, [...way, child.name], within || hit);
      at += part;
    }
  };
  for (const [at, frame] of above.entries()) place({ ...frame, children: new Map() }, at, 0, width, path.slice(0, at), false);
  place(top, above.length, 0, width, path.slice(0, above.length), false);
  svg.setAttribute("height", String((deepest + 1) * ROW));
  const found = wanted.length > 1 ? `; ${percent(matched / Math.max(1, root.time))} matches “${search}”` : "";
  return [h("h3", {}, `${title}: ${length(root.time * 1e3)}${found}`), svg];
}

function shown(name: string): string {
  return name.replace(/_\[[kj]\]$/, "");
}

function kind(name: string, depth: number): string {
  if (depth <= 1) return "thread";
  if (name.endsWith("_[k]")) return "kernel";
  if (name.endsWith("_[j]")) return "java";
  return "native";
}
