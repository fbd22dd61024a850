// The page in Debian's Chromium, from file://.

import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  // An upper bound, not a target: CI runs a virtual machine at the same time.
  timeout: 120_000,
  expect: { timeout: 30_000 },
  workers: 1,
  retries: 0,
  forbidOnly: true,
  reporter: "list",
  use: {
    viewport: { width: 1400, height: 900 },
    launchOptions: {
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      // Chromium's sandbox does not work as root, and `make test` may run as root; /dev/shm is small in containers.
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    },
  },
});
