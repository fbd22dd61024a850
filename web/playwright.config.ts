// The page in Debian's Chromium, from file://.

import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  // A ceiling, not a target: CI tests in a virtual machine beside it.
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
      // Root, as which `make test` may run, has no sandbox; /dev/shm is small in containers.
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    },
  },
});
