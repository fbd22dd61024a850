// Takes the picture of a page for README: what was slow and why, over time, and the waterfall of a request that waited for the
// write of another. Used by `make picture`.
//
//   node scripts/picture.mjs PAGE PICTURE.png

import { drawn, opened } from "./chromium.mjs";

const [file, picture] = process.argv.slice(2);
if (!file || !picture) throw new Error("usage: picture.mjs PAGE PICTURE.png");
await opened(file, { width: 920, height: 900 }, async (page) => {
  await drawn(page);
  const waiter = await page.evaluate(() => {
    const data = JSON.parse(document.getElementById("page-data").textContent);
    return data.recordings[0].requests.find((one) => one.chain.join(" ") === "log-lock journal-commit")?.id;
  });
  if (!waiter) throw new Error("no request waited for another's write");
  await page.evaluate((id) => (location.hash = `request=${id}`), waiter);
  // Keeps only the parts for the picture.
  await page.evaluate(() => {
    // Of the charts over time, the first and the fourth.
    const strips = [...document.querySelectorAll("#time .strip")].filter((_, at) => ![0, 3].includes(at));
    const rest = document.querySelectorAll("section:not(#story, #time, #request), .top, footer, .columns, .bar-text, .notes, .about, .request .legend");
    for (const element of [...strips, ...rest]) element.remove();
  });
  await drawn(page);
  await page.screenshot({ path: picture, fullPage: true });
});
