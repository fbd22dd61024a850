// Holds the types of `src/data.ts` to what the Rust side writes: `npm run check` fails where they differ. Not run.

import golden from "../../crates/page/tests/goldens/expected/page.json";
import comparison from "../../crates/report/tests/goldens/expected/compare-page.json";
import type { Page } from "../src/data";

export const data: Page = golden;
export const compared: Page = comparison;
