// Takes the picture of a comparison's page for README: what differs, p99.9 over the time of the run, and what slow requests
// waited for. Used by `make fs-picture`.
//
//   node scripts/comparison-picture.mjs PAGE PICTURE.png

import { drawn, opened } from "./chromium.mjs";

const [file, picture] = process.argv.slice(2);
if (!file || !picture) throw new Error("usage: comparison-picture.mjs PAGE PICTURE.png");
await opened(file, { width: 920, height: 900 }, async (page) => {
  await drawn(page);
  if (!(await page.locator('#page[data-ready="comparison"]').count())) throw new Error(`${file} is no page of a comparison`);
  // Removes everything else: tables below show the figures.
  await page.evaluate(() => {
    for (const element of document.querySelectorAll("section:not(#story, #heat, #causes), .top, footer, #causes table")) element.remove();
  });
  await drawn(page);
  await page.screenshot({ path: picture, fullPage: true });
});
