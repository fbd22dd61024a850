// A picture that is as wide as the page allows, redrawn when its width changes; and axes with round numbers.

import { h } from "./dom";

/** Draws once it is in the page, and whenever its width changes. */
export function picture(label: string, draw: (width: number) => SVGSVGElement): HTMLElement {
  const place = h("div", { class: "picture", tabindex: 0, role: "img", "aria-label": label });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(place.clientWidth);
    if (width > 0 && Math.abs(width - drawn) > 1) {
      drawn = width;
      const svg = draw(width);
      // Scales to paper, which is narrower and for which nothing is redrawn.
      svg.setAttribute("viewBox", `0 0 ${width} ${svg.getAttribute("height") ?? 0}`);
      place.replaceChildren(svg);
    }
  }).observe(place);
  return place;
}

/** About `about` round numbers from 0 to `most`. */
export function ticks(most: number, about: number): number[] {
  if (!(most > 0)) return [0];
  const raw = most / Math.max(1, about);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= raw) ?? 10);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

/** The text, cut to a width in pixels at 11 px. */
export function clip(text: string, pixels: number): string {
  const most = Math.max(3, Math.floor(pixels / 6.2));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
