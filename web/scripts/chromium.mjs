// Opens a page from its file in Debian's Chromium, as a user would.

import { pathToFileURL } from "node:url";

import { chromium } from "@playwright/test";

/** Opens the page in a new browser and returns it. */
export async function opened(file, viewport, act) {
  const browser = await chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    // Chromium's sandbox does not work as root; /dev/shm is small in containers.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb"],
  });
  try {
    const page = await browser.newPage({ viewport });
    await page.goto(pathToFileURL(file).href, { waitUntil: "commit" });
    return await act(page);
  } finally {
    await browser.close();
  }
}

/** Milliseconds from navigation to the first frame that shows every chart. */
export function drawn(page) {
  return page.evaluate(
    () =>
      new Promise((done) => {
        const look = () => {
          const charts = document.querySelectorAll(".plot").length;
          const isDrawn = document.querySelector("#page[data-ready]") && document.querySelectorAll(".plot canvas").length >= charts;
          if (isDrawn) requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
          else requestAnimationFrame(look);
        };
        look();
      }),
  );
}
