// When a page has come to rest: what is drawn is drawn again once its size is known, a frame or two later.

import type { Page } from "@playwright/test";

/** So many frames in which nothing changes: what is still to be drawn is drawn in the next two. */
const QUIET_FRAMES = 8;

/** Waits until nothing in the page has changed for some frames, however long those take. */
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
