// The picture of a page that README shows: what was slow and why, over time, and the waterfall of one that waited for another's
// write. Used by `make picture`.
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
  // As much as tells it: the rest of the page is beneath.
  await page.evaluate(() => {
    // As much as tells it; the rest of the page is beside and beneath.
    const strips = [...document.querySelectorAll("#time .strip")].filter((_, at) => ![0, 3].includes(at));
    const rest = document.querySelectorAll("section:not(#story, #time, #request), .top, footer, .columns, .told, .notes, .about, .request .legend");
    for (const element of [...strips, ...rest]) element.remove();
  });
  await drawn(page);
  await page.screenshot({ path: picture, fullPage: true });
});
