// The page of the shipped sample, as `brokerscope report samples/journal-stall` writes it, and one with hostile names.
// PAGE and HOSTILE name the files; `make page` creates them.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page, test } from "@playwright/test";

import type { Page as Data } from "../src/data";
import { settled } from "./settled";

const file = process.env["PAGE"];
if (!file) throw new Error("PAGE names the page to test: run `make page`");

const BEGIN = '<script type="application/json" id="page-data">';

/** Opens a page, and fails if it logs anything or makes any network request. */
async function open(page: Page, path: string, fragment = ""): Promise<string[]> {
  const faults: string[] = [];
  page.on("console", (message) => faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith("data:") && url.split("#")[0] !== pathToFileURL(path).href) faults.push(`asked for ${url}`);
  });
  await page.goto(`${pathToFileURL(path).href}${fragment}`);
  await page.waitForSelector("#page[data-ready]");
  await page.waitForSelector(".plot canvas");
  await settled(page);
  return faults;
}

function data(path: string): { text: string; before: string; after: string; page: Data } {
  const html = readFileSync(path, "utf8");
  const from = html.indexOf(BEGIN) + BEGIN.length;
  const until = html.indexOf("</script>", from);
  const text = html.slice(from, until);
  return { text, before: html.slice(0, from), after: html.slice(until), page: JSON.parse(text) as Data };
}

test("it opens from a file without a word and without a network", async ({ page }) => {
  const faults = await open(page, file);
  await expect(page.locator(".headline")).toContainText("took 100 ms or longer");
  await expect.poll(() => page.locator(".plot canvas").count()).toBeGreaterThan(4);
  expect(faults).toEqual([]);
});

test("the waterfall of the slowest request shows commit, write and waiter", async ({ page }) => {
  const recording = data(file).page.recordings[0];
  const waiter = recording?.requests.find((detail) => detail.chain.join(" ") === "log-lock journal-commit");
  expect(waiter, "the sample has a request that waited for another's write").toBeDefined();
  const faults = await open(page, file, `#request=${waiter?.id}`);
  const waterfall = page.locator("svg.waterfall");
  await expect(waterfall).toBeVisible();
  await settled(page);
  // Measures all bars in one drawing: it is redrawn when its width changes.
  const widest = await page.evaluate((kinds) => {
    const boxes = (kind: string) => [...document.querySelectorAll(`svg.waterfall .bar[data-kind="${kind}"] rect`)].map((bar) => bar.getBoundingClientRect());
    return kinds.map((kind) => boxes(kind).sort((a, b) => b.width - a.width).map(({ x, width }) => ({ x, width }))[0]);
  }, ["request", "commit", "file-op"]);
  const [request, commit, write] = widest;
  for (const one of [request, commit, write]) expect(one?.width ?? 0).toBeGreaterThan(20);
  // On one time axis: the commit overlaps most of the write, and the write most of the request.
  const shared = (a: typeof request, b: typeof request) => {
    const right = (one: typeof request) => (one?.x ?? 0) + (one?.width ?? 0);
    return (Math.min(right(a), right(b)) - Math.max(a?.x ?? 0, b?.x ?? 0)) / (b?.width ?? 1);
  };
  expect(shared(commit, write)).toBeGreaterThan(0.7);
  expect(shared(write, request)).toBeGreaterThan(0.5);
  expect(await waterfall.locator('.bar[data-kind="block-io"]').count()).toBeGreaterThan(0);
  // The evidence and the lane of the waiting thread show the wait, and the write of the lock's owner.
  const wait = waiter?.evidence.find(({ kind }) => kind === "lock-wait");
  expect(wait?.waiter_tid).not.toBe(wait?.tid);
  const own = waterfall.locator("g.lane", { hasText: ` ${wait?.waiter_tid}` });
  await expect(own.locator('.bar[data-kind="lock-wait"]')).toHaveCount(2);
  expect(faults).toEqual([]);
});

test("brushing time filters everything, and the address remembers it", async ({ page }) => {
  await open(page, file);
  const rows = async (section: string) => Number(await page.locator(`#${section} .table`).first().getAttribute("data-rows"));
  const all = { requests: await rows("requests"), roots: await rows("roots") };
  const plot = page.locator(".plot .u-over").first();
  const box = await plot.boundingBox();
  if (!box) throw new Error("no chart");
  await page.mouse.move(box.x + box.width * 0.1, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.45, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect(page.locator(".chip").first()).toBeVisible();
  await expect.poll(() => rows("requests")).toBeLessThan(all.requests);
  await expect.poll(() => rows("roots")).toBeLessThan(all.roots);
  await settled(page);
  const filtered = await rows("requests");
  await expect(page).toHaveURL(/time=/);
  await page.reload();
  await page.waitForSelector(".plot canvas");
  await settled(page);
  await expect.poll(() => rows("requests")).toBe(filtered);
  await page.keyboard.press("Escape");
  await expect.poll(() => rows("requests")).toBe(all.requests);
});

test("threads have lanes, and those of the request's evidence are marked", async ({ page }) => {
  const recording = data(file).page.recordings[0];
  const detail = recording?.requests.find((one) => one.threads.some((thread) => thread.in_evidence));
  const named = detail?.threads.filter((thread) => thread.in_evidence).map((thread) => String(thread.tid)) ?? [];
  await open(page, file, `#request=${detail?.id}`);
  const lanes = page.locator(".lanes .threads li");
  await expect(lanes).toHaveCount(Math.min(36, recording?.threads.filter((thread) => thread.cells.length > 0).length ?? 0));
  await expect(page.locator(".lanes .threads li.named").first()).toBeVisible();
  const marked = await page.locator(".lanes .threads li.named").allInnerTexts();
  for (const name of marked) expect(named).toContain(name.split(" ").at(-1));
  // A thread has one state at a time: the shares of a bucket do not exceed the bucket, except for rounding.
  const most = Math.max(...(recording?.threads.flatMap(({ cells }) => cells.map(([, ...lengths]) => lengths.reduce((a, b) => a + b, 0))) ?? []));
  expect(most).toBeLessThanOrEqual((recording?.bucket_ns ?? 0) / 1e3 + 1_000);
});

test("it prints: light, to the width of the paper, with the evidence in words", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await open(page, file);
  const before = await page.locator(".plot canvas").first().boundingBox();
  const seen = await page.evaluate(() => {
    dispatchEvent(new Event("beforeprint"));
    const canvas = document.querySelector<HTMLElement>(".plot canvas");
    return { theme: document.documentElement.dataset["theme"], width: canvas?.getBoundingClientRect().right ?? 0, open: document.querySelector("#request details")?.hasAttribute("open") };
  });
  expect(seen).toMatchObject({ theme: "light", open: true });
  expect(seen.width).toBeLessThanOrEqual(1046);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  expect(await page.evaluate(() => document.documentElement.dataset["theme"])).toBeUndefined();
  await expect.poll(async () => (await page.locator(".plot canvas").first().boundingBox())?.width).toBe(before?.width);
});

test("what to change stands with its evidence, the dearest first", async ({ page }) => {
  const advice = data(file).page.recordings[0]?.advice;
  const recommendations = advice?.layers.flatMap((layer) => layer.recommendations) ?? [];
  const first = recommendations.find(({ rank }) => rank === 1);
  expect(first?.rule, "the sample's journal").toBe("journal-commit");
  const faults = await open(page, file);
  await page.getByRole("link", { name: "Advice" }).click();
  const articles = page.locator("#advice article");
  await expect(articles).toHaveCount(recommendations.length);
  const dearest = articles.first();
  await expect(dearest).toBeVisible();
  await expect(dearest.locator("h4")).toContainText("1. journal-commit cost ");
  const [change] = first?.changes ?? [];
  for (const text of [first?.evidence, change?.setting, `${change?.old} → ${change?.new}`, first?.effect, first?.risk, first?.verify]) {
    expect(text?.length ?? 0).toBeGreaterThan(3);
    await expect(dearest).toContainText(text ?? "");
  }
  // XFS, or what is done to ext4.
  const ways = dearest.locator("dd li");
  await expect(ways.nth(0)).toHaveText(/^file system of .*ext4 → xfs$/);
  await expect(ways.nth(1)).toHaveText(/^or tune2fs -O fast_commit /);
  await expect(ways.nth(2)).toHaveText(/^and\/or mount option of /);
  // In the order of `advise`, layer by layer.
  const layers = await page.locator("#advice .layer h3").allInnerTexts();
  expect(layers.map((layer) => layer.toLowerCase())).toEqual(advice?.layers.map(({ layer }) => layer.toLowerCase()));
  const unknown = page.locator("#advice > details").first();
  await expect(unknown.locator("li").first()).toBeHidden();
  await unknown.locator("summary").click();
  await expect(unknown.locator("li")).toHaveCount(advice?.missing.length ?? 0);
  await expect(unknown.locator("li").first()).toBeVisible();
  expect(faults).toEqual([]);
});

test("search and keys", async ({ page }) => {
  await open(page, file);
  await page.keyboard.press("/");
  await expect(page.locator("#search")).toBeFocused();
  await page.keyboard.type("topicB");
  await expect(page.locator("#requests tbody tr").first()).toContainText("topicB");
  await expect(page.locator("#requests tbody")).not.toContainText("topicA-");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await expect(page).toHaveURL(/request=/);
});

for (const theme of ["light", "dark"] as const) {
  test(`no serious fault of accessibility, ${theme}`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: theme });
    await open(page, file);
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    expect(serious.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
  });
}

test("names that hold markup stay names", async ({ page }, info) => {
  const hostile = `</script><img src=x onerror="document.title='owned'"><!--`;
  const { text, before, after } = data(file);
  expect(text).not.toContain("<");
  const changed = JSON.parse(text) as Data;
  for (const recording of changed.recordings) {
    recording.about.name = hostile;
    recording.slow.names = recording.slow.names.map((name) => name + hostile);
    recording.story.headline += hostile;
    for (const thread of recording.threads) thread.thread += hostile;
    for (const one of recording.partitions) one.topic += hostile;
    for (const one of recording.files) one.file += hostile;
    for (const detail of recording.requests) {
      detail.client_id = hostile;
      for (const proof of detail.evidence) proof.text += hostile;
    }
    recording.flames.frames = recording.flames.frames.map((name) => name + hostile);
    for (const { recommendations } of recording.advice?.layers ?? []) {
      for (const one of recommendations) {
        for (const change of one.changes) change.setting = change.old = change.new = hostile;
        one.evidence = one.effect = one.verify = hostile;
      }
    }
  }
  const path = info.outputPath("hostile.html");
  writeFileSync(path, before + JSON.stringify(changed).replaceAll("<", "\\u003c") + after);
  const faults = await open(page, path);
  expect(await page.title()).toContain("</script>");
  expect(await page.locator("img").count()).toBe(0);
  expect(faults).toEqual([]);
});
