// Zooming, searching and reading a flame graph. Each panel has its own scale; a frame's place is in its
// data: nanoseconds from the left (x), its width (w), its row (d), and its kind (k).
"use strict";
(function () {
  const svg = document.documentElement;
  const left = 10, width = Number(svg.dataset.width), charWidth = Number(svg.dataset.charWidth);
  const panels = Array.from(svg.querySelectorAll(".panel"), readPanel);
  const matched = document.getElementById("matched");
  const reset = document.getElementById("reset");
  const clear = document.getElementById("clear");

  function readPanel(element) {
    const frames = Array.from(element.querySelectorAll(".frame"), readFrame);
    const panel = { element, frames, total: Number(element.dataset.total), detail: element.querySelector(".detail") };
    panel.idle = panel.detail.textContent;
    for (const frame of frames) {
      frame.element.addEventListener("click", () => zoom(panel, frame));
      frame.element.addEventListener("mouseenter", () => { panel.detail.textContent = frame.title.replace("\n", " — "); });
      frame.element.addEventListener("mouseleave", () => { panel.detail.textContent = panel.idle; });
    }
    return panel;
  }

  function readFrame(element) {
    const title = element.querySelector("title").textContent;
    return {
      element, title,
      name: title.split("\n")[0],
      kind: element.dataset.k,
      x: Number(element.dataset.x), w: Number(element.dataset.w), d: Number(element.dataset.d),
      rect: element.querySelector("rect"), text: element.querySelector("text"),
    };
  }

  // As `fit` in svg.rs.
  function fit(name, kind, pixels) {
    const room = Math.floor((pixels - 6) / charWidth);
    if (room < 3) return "";
    const chars = Array.from(name);
    if (chars.length <= room) return name;
    if (kind === "j") {
      const parts = name.split(".");
      for (let from = 1; from < parts.length; from++) {
        const tail = parts.slice(from).join(".");
        if (Array.from(tail).length <= room) return tail;
      }
    }
    return chars.slice(0, room - 2).join("") + "..";
  }

  function zoom(panel, to) {
    const scale = width / Math.max(to.w, 1);
    for (const frame of panel.frames) {
      const around = frame.d <= to.d && frame.x <= to.x && frame.x + frame.w >= to.x + to.w;
      const inside = frame.d > to.d && frame.x >= to.x && frame.x + frame.w <= to.x + to.w;
      const shown = around || inside;
      frame.element.classList.toggle("hidden", !shown || (inside && frame.w * scale < 0.2));
      frame.element.classList.toggle("below", around && frame.d < to.d);
      if (!shown) continue;
      place(frame, around ? 0 : (frame.x - to.x) * scale, around ? width : frame.w * scale);
    }
    panel.zoomed = to.d > 0;
    reset.classList.toggle("hidden", !panels.some((one) => one.zoomed));
  }

  function place(frame, x, pixels) {
    frame.rect.setAttribute("x", left + x);
    frame.rect.setAttribute("width", Math.max(pixels - 0.5, 0.3));
    frame.text.setAttribute("x", left + x + 3);
    frame.text.textContent = fit(frame.name, frame.kind, pixels);
  }

  function zoomOut() {
    for (const panel of panels) zoom(panel, panel.frames.find((frame) => frame.d === 0));
  }

  function search(pattern) {
    const found = matcher(pattern);
    const shares = panels.map((panel) => {
      let sum = 0, until = -1;
      // From left to right, each before what stands on it: what lies within a match counts once.
      for (const frame of panel.frames) {
        const is = found !== null && found(frame.name);
        frame.element.classList.toggle("found", is);
        if (is && frame.x >= until) {
          sum += frame.w;
          until = frame.x + frame.w;
        }
      }
      return panel.element.dataset.name + " " + (100 * sum / Math.max(panel.total, 1)).toFixed(1) + " %";
    });
    matched.textContent = found === null ? "" : "“" + pattern + "”: " + shares.join(", ");
    clear.classList.toggle("hidden", found === null);
  }

  function matcher(pattern) {
    if (!pattern) return null;
    try {
      const expression = new RegExp(pattern);
      return (name) => expression.test(name);
    } catch (_) {
      return (name) => name.includes(pattern);
    }
  }

  function ask() {
    const pattern = window.prompt("Search for (a regular expression, for example ^ext4_):", "");
    if (pattern) search(pattern);
  }

  document.getElementById("search").addEventListener("click", ask);
  reset.addEventListener("click", zoomOut);
  clear.addEventListener("click", () => search(""));
  window.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      ask();
    } else if (event.key === "Escape") {
      search("");
      zoomOut();
    }
  });
  document.getElementById("controls").classList.remove("hidden");
  // A link may carry what to search for: graph.svg#s=jbd2
  if (location.hash.startsWith("#s=")) search(decodeURIComponent(location.hash.slice(3)));
})();
