// Measures how long a page takes to open in a freshly started browser: milliseconds, one line per round. Used by `make bench`.
//
//   node scripts/opening.mjs PAGE ROUNDS

import { drawn, opened } from "./chromium.mjs";

const [file, rounds] = process.argv.slice(2);
if (!file || !(Number(rounds) > 0)) throw new Error("usage: opening.mjs PAGE ROUNDS");
for (let round = 0; round < Number(rounds); round += 1) {
  console.log(Math.round(await opened(file, { width: 1400, height: 900 }, drawn)));
}
