// Colours that people with any kind of colour vision can tell apart (after Okabe and Ito, and Tol), for both themes.

const PALETTE = [
  "#0072b2", // blue
  "#e69f00", // orange
  "#009e73", // green
  "#cc79a7", // pink
  "#56b4e9", // sky
  "#d55e00", // vermilion
  "#b8a700", // olive
  "#8f6fd1", // purple
  "#7a5230", // brown
  "#44aa99", // teal
  "#aa4499", // magenta
  "#88ccee", // pale blue
];

const GREY = "#8b949e";

/** The colour for a name, by its position in a list; unobserved is grey. */
export function colourOf(name: string, names: string[]): string {
  if (name === "unobserved") return GREY;
  const known = names.filter((one) => one !== "unobserved");
  const at = Math.max(0, known.indexOf(name));
  return PALETTE[at % PALETTE.length] ?? GREY;
}

/** Colours of the kinds in a waterfall and of thread states. */
export const KINDS: Record<string, string> = {
  "file-op": "#0072b2",
  "lock-wait": "#cc79a7",
  "off-cpu": "#d55e00",
  "block-io": "#009e73",
  kernel: "#e69f00",
  commit: "#e69f00",
  gc: "#8f6fd1",
  request: "#56b4e9",
  throttle: "#b8a700",
  reclaim: "#7a5230",
  call: "#aa4499",
  idle: "#9aa4b0",
  running: "#009e73",
  "waiting for a CPU": "#b8a700",
  "in a file operation": "#0072b2",
  "blocked by disk or kernel": "#d55e00",
  "waiting for a lock": "#cc79a7",
  "stopped by the JVM": "#8f6fd1",
  "waiting for work": "#9aa4b0",
};

/** The kind for a thread that waits for work; drawn pale. */
export const IDLE = "idle";

/** A kind's colour. */
export function kindColour(kind: string): string {
  return KINDS[kind] ?? GREY;
}

/** Whether dark text is more readable on the colour than white. */
export function isPale(colour: string): boolean {
  const part = (at: number): number => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2;
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > 0.22;
}

const LIGHT = ["#e6eef7", "#b9d3ea", "#7fb2db", "#3f89c4", "#14609f", "#0b3d70", "#07264a"];
const DARK = ["#16283a", "#1d4468", "#266a9a", "#3f94bd", "#79bfc4", "#c6e0a6", "#fff3b0"];

/** The colour for a count, on a logarithmic scale up to the highest count. */
export function heat(count: number, most: number, dark: boolean): string {
  const scale = dark ? DARK : LIGHT;
  const share = most <= 1 ? 1 : Math.log1p(count) / Math.log1p(most);
  return scale[Math.min(scale.length - 1, Math.floor(share * scale.length))] ?? GREY;
}

/** Number of colours of the scale. */
export const LEVELS = LIGHT.length;

/** The lowest count that has this colour. */
export function leastOf(level: number, most: number): number {
  return most <= 1 ? (level === LEVELS - 1 ? 1 : Infinity) : Math.expm1((level / LEVELS) * Math.log1p(most)) - 1e-9;
}

/** Whether the page currently uses the dark theme. */
export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "dark" || chosen === "light") return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** A colour of the style sheet. */
export function themed(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || GREY;
}
