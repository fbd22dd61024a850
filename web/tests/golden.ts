// Checks the types of `src/data.ts` against the output of the Rust side: `npm run check` fails if they differ. Never executed.

import golden from "../../crates/page/tests/goldens/expected/page.json";
import comparison from "../../crates/report/tests/goldens/expected/compare-page.json";
import type { Page } from "../src/data";

export const data: Page = golden;
export const compared: Page = comparison;
