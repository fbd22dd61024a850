// The colour legend of a map: a row of blocks with the values at their bounds.

import { h } from "./dom";

export interface Scale {
  /** What the colours show, with its unit. */
  title: string;
  /** The colour number and the lower bound of each block. */
  blocks: { level: number; from: string }[];
  /** The upper bound of the last block. */
  until: string;
  /** A value to mark, as a share of the blocks' width. */
  mark?: { at: number; text: string } | undefined;
}

/** The legend. A narrow one shows only its first and last bound. */
export function scale({ title, blocks, until, mark }: Scale, narrow = false): HTMLElement {
  const label = `Scale of ${title}: from ${blocks[0]?.from ?? until} to ${until}${mark ? `; ${mark.text}` : ""}`;
  const row = h("div", { class: narrow ? "scale narrow" : "scale", role: "img", "aria-label": label }, h("span", { class: "title" }, title));
  const strip = h("div", { class: mark ? "blocks marked" : "blocks" });
  for (const [at, { level, from }] of blocks.entries()) {
    const bound = !narrow || at === 0 ? h("span", { class: "bound" }, from) : null;
    strip.append(h("div", {}, h("span", { class: `block heat${level}` }), bound, at === blocks.length - 1 ? h("span", { class: "bound last" }, until) : null));
  }
  if (mark) {
    const pointer = h("span", { class: "mark" }, h("span", {}, mark.text));
    pointer.style.left = `${100 * mark.at}%`;
    strip.append(pointer);
  }
  row.append(strip);
  return row;
}
