// The page of a comparison: of the sample's two halves, as `brokerscope compare` writes it, and with the data of the golden,
// which has hostile names. COMPARE names the file; `make page` creates it.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page, test } from "@playwright/test";

import type { Page as Data } from "../src/data";
import { settled } from "./settled";

const file = process.env["COMPARE"];
if (!file) throw new Error("COMPARE names the page to test: run `make page`");

const BEGIN = '<script type="application/json" id="page-data">';
const GOLDEN = "../crates/report/tests/goldens/expected/compare-page.json";

/** Opens a page, and fails if it logs anything or makes any network request. */
async function open(page: Page, path: string): Promise<string[]> {
  const faults: string[] = [];
  page.on("console", (message) => faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith("data:") && request.url() !== pathToFileURL(path).href) faults.push(`asked for ${request.url()}`);
  });
  await page.goto(pathToFileURL(path).href);
  await page.waitForSelector('#page[data-ready="comparison"]');
  await page.waitForSelector("svg.heatrows");
  await page.waitForSelector("svg.bars");
  await settled(page);
  return faults;
}

function data(html: string): string {
  const from = html.indexOf(BEGIN) + BEGIN.length;
  return html.slice(from, html.indexOf("</script>", from));
}

/** A page with other data. */
function write(path: string, text: string): string {
  const html = readFileSync(file ?? "", "utf8");
  const from = html.indexOf(BEGIN) + BEGIN.length;
  writeFileSync(path, html.slice(0, from) + text.replaceAll("<", "\\u003c") + html.slice(html.indexOf("</script>", from)));
  return path;
}

/** The golden's three configurations in a page. */
function golden(path: string): string {
  return write(path, readFileSync(GOLDEN, "utf8"));
}

/** A page of two recordings and their comparison, as `brokerscope report A B` writes it. */
function several(path: string): string {
  const compared = JSON.parse(data(readFileSync(file ?? "", "utf8"))) as Data;
  const recording = (JSON.parse(data(readFileSync(process.env["PAGE"] ?? "", "utf8"))) as Data).recordings[0];
  if (!recording || !compared.comparison) throw new Error("the pages hold no recording and no comparison");
  const names = compared.comparison.configurations.map((one) => one.runs[0]?.recording ?? "");
  compared.recordings = names.map((name) => ({ ...recording, about: { ...recording.about, name } }));
  return write(path, JSON.stringify(compared));
}

test("a comparison opens without a word and without a network", async ({ page }) => {
  const faults = await open(page, file);
  await expect(page.locator(".headline")).toContainText("65 ms");
  await expect(page.locator("#differences tbody tr")).toHaveCount(8);
  await expect(page.locator("#differences")).toContainText("too short to say");
  expect(faults).toEqual([]);
});

test("one row a configuration on one scale, and a bar for each", async ({ page }, info) => {
  const faults = await open(page, golden(info.outputPath("golden.html")));
  await expect(page.locator("svg.heatrows rect.empty")).toHaveCount(3);
  // The same stall has the same colour in every configuration; the third configuration rarely stalls.
  const tops = await page.evaluate(() => [...document.querySelectorAll("svg.heatrows rect.heat5, svg.heatrows rect.heat6")].map((rect) => Number(rect.getAttribute("y"))));
  const rows = [...new Set(tops)].sort((a, b) => a - b).map((top) => tops.filter((one) => one === top).length);
  expect(rows.length).toBe(3);
  expect(rows[0]).toBe(rows[1]);
  expect(rows[2] ?? 0).toBeLessThan((rows[0] ?? 0) / 2);
  await expect(page.locator("svg.bars rect.bar")).toHaveCount(3);
  await expect(page.locator("svg.bars circle")).toHaveCount(9);
  await page.getByLabel("Figure").selectOption("slo_miss_ratio");
  // Pictures are redrawn once their size is known, shortly after they are requested.
  const share = () => page.evaluate(() => {
    const [first, , third] = [...document.querySelectorAll("svg.bars rect.bar")].map((bar) => Number(bar.getAttribute("width")));
    return first && third !== undefined ? third / first : 1;
  });
  await expect.poll(share).toBeLessThan(1 / 3);
  expect(faults).toEqual([]);
});

test("the keyboard points at cells, and the theme turns", async ({ page }) => {
  await open(page, file);
  await page.locator("#heat .picture").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await expect(page.locator("#heat .tip")).toContainText("second, 1 s to 2 s: p99.9");
  const colour = () => page.locator("svg.heatrows rect.heat6").first().evaluate((rect) => getComputedStyle(rect).fill);
  const before = await colour();
  await page.keyboard.press("t");
  await expect.poll(colour).not.toBe(before);
});

for (const theme of ["light", "dark"] as const) {
  test(`no serious fault of a comparison's accessibility, ${theme}`, async ({ page }, info) => {
    await page.emulateMedia({ colorScheme: theme });
    await open(page, golden(info.outputPath("golden.html")));
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    expect(serious.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
  });
}

test("configurations whose names hold markup stay names", async ({ page }, info) => {
  const faults = await open(page, golden(info.outputPath("golden.html")));
  await expect(page.locator("#differences")).toContainText("</script>");
  expect(await page.locator("#page b:text('one')").count()).toBe(0);
  expect(faults).toEqual([]);
});

test("several recordings: what compares them first, and each of them", async ({ page }, info) => {
  const faults = await open(page, several(info.outputPath("several.html")));
  await page.getByLabel("Recording", { exact: true }).selectOption({ index: 1 });
  await page.waitForSelector(".plot canvas");
  await expect(page).toHaveURL(/recording=0/);
  await expect(page.locator(".headline")).toContainText("took 100 ms or longer");
  await page.reload();
  await page.waitForSelector(".plot canvas");
  await page.getByLabel("Recording", { exact: true }).selectOption({ index: 0 });
  await expect(page.locator("#heat svg.heatrows")).toBeVisible();
  await page.locator("#runs tbody button").last().click();
  await expect(page).toHaveURL(/recording=1/);
  await page.waitForSelector(".plot canvas");
  expect(faults).toEqual([]);
});
