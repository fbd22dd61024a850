// Waits for a page to settle: pictures are redrawn once their size is known, a frame or two later.

import type { Page } from "@playwright/test";

/** Frames without a change after which the page has settled: pending drawings need at most two. */
const QUIET_FRAMES = 8;

/** Waits until nothing in the page has changed for some frames, no matter how long they take. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(
    (frames) =>
      new Promise<void>((done) => {
        let quiet = 0;
        const observer = new MutationObserver(() => (quiet = 0));
        observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
        const next = (): void => {
          quiet += 1;
          if (quiet <= frames) requestAnimationFrame(next);
          else {
            observer.disconnect();
            done();
          }
        };
        requestAnimationFrame(next);
      }),
    QUIET_FRAMES,
  );
}
