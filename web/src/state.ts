// The selection: a recording, a time range, a cause or root, search words, one request. It is stored in the fragment of the
// page's address, so that the current view can be shared as a link.

export interface Selection {
  /** The recording's number, or COMPARISON. */
  recording: number;
  /** Nanoseconds after the origin. */
  range: [number, number] | null;
  /** Whether the time axis shows only the range. */
  zoomed: boolean;
  cause: string | null;
  root: string | null;
  search: string;
  request: string | null;
}

/** Selects the comparison instead of a recording's number. */
export const COMPARISON = -1;

/** What changed: parts of the selection, or the page's look (its theme, or its width on paper). */
export type Changed = Set<keyof Selection | "look">;
type Listener = (selection: Selection, changed: Changed) => void;

const NONE: Selection = {
  recording: 0,
  range: null,
  zoomed: false,
  cause: null,
  root: null,
  search: "",
  request: null,
};

/** The selection, and the listeners for its changes. */
export class State {
  selection: Selection = NONE;
  private listeners: Listener[] = [];

  /** `first` is the recording that opens if the address names none. */
  constructor(private readonly first: number) {
    this.selection = fromFragment(location.hash, first);
    addEventListener("hashchange", () => {
      const next = fromFragment(location.hash, first);
      if (toFragment(next, first) !== toFragment(this.selection, first)) this.set(next);
    });
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** Removes all listeners, because another recording is drawn. */
  forget(): void {
    this.listeners = [];
  }

  set(change: Partial<Selection>): void {
    const changed: Changed = new Set();
    for (const key of Object.keys(change) as (keyof Selection)[]) {
      if (JSON.stringify(change[key]) !== JSON.stringify(this.selection[key])) changed.add(key);
    }
    if (changed.size === 0) return;
    this.selection = { ...this.selection, ...change };
    history.replaceState(null, "", `#${toFragment(this.selection, this.first)}`);
    for (const listener of this.listeners) listener(this.selection, changed);
  }

  /** Redraws everything immediately: printing does not wait for the next frame. */
  look(): void {
    for (const listener of this.listeners) listener(this.selection, new Set(["look"]));
  }

  /** Clears the selection except for the request. */
  clear(): void {
    this.set({ range: null, zoomed: false, cause: null, root: null, search: "" });
  }
}

function toFragment(selection: Selection, first: number): string {
  const parts = new URLSearchParams();
  if (selection.recording !== first) parts.set("recording", String(selection.recording));
  if (selection.range) parts.set("time", selection.range.map((at) => Math.round(at / 1e6)).join("-"));
  if (selection.zoomed) parts.set("zoom", "1");
  if (selection.cause) parts.set("cause", selection.cause);
  if (selection.root) parts.set("root", selection.root);
  if (selection.search) parts.set("search", selection.search);
  if (selection.request) parts.set("request", selection.request);
  return parts.toString();
}

function fromFragment(fragment: string, first: number): Selection {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const [from, until] = (parts.get("time") ?? "").split("-").map((ms) => Number(ms) * 1e6);
  const whole = from !== undefined && until !== undefined && until > from;
  return {
    recording: Number(parts.get("recording") ?? first) || 0,
    range: whole ? [from, until] : null,
    zoomed: whole && parts.has("zoom"),
    cause: parts.get("cause"),
    root: parts.get("root"),
    search: parts.get("search") ?? "",
    request: parts.get("request"),
  };
}
