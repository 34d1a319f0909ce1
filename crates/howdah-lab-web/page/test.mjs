// The laboratory's page in a real browser: node test.mjs PAGE CHROMIUM [HOWDAH [DIRECTORY FOR PICTURES]]
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";

// What the console is tested with.
const require = createRequire(new URL("../../howdah-daemon/console/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [file, executablePath, howdah, pictures] = process.argv.slice(2);
const url = pathToFileURL(file).href;
const html = readFileSync(file, "utf8");
const inside = (id) => new RegExp(`id="${id}">([^<]*)</script>`).exec(html)[1];

/** The cells of the reduced example, run by the module without a page, give what the program gives. */
async function asTheProgram() {
  const module = gunzipSync(Buffer.from(inside("wasm"), "base64"));
  const { exports: lab } = (await WebAssembly.instantiate(module, {})).instance;
  const answer = () => Buffer.from(lab.memory.buffer, lab.lab_out(), lab.lab_out_len());
  const request = Buffer.from(
    JSON.stringify({ path: "scenarios/example.toml", files: JSON.parse(inside("scenarios")), quick: true }),
  );
  const at = lab.lab_in(request.length);
  new Uint8Array(lab.memory.buffer, at, request.length).set(request);
  assert.equal(lab.lab_open(), 1, answer().toString());
  const cells = JSON.parse(answer().toString()).cells.length;
  const found = new Map();
  for (let index = 0; index < cells; index += 1) {
    assert.equal(lab.lab_run(index), 1, answer().toString());
    const result = JSON.parse(answer().subarray(4, 4 + answer().readUInt32LE(0)).toString());
    found.set(result.id, result);
  }
  const out = mkdtempSync(join(tmpdir(), "lab-web-"));
  try {
    execFileSync(howdah, ["lab", "run", "scenarios/example.toml", "--quick", "--out", out], {
      cwd: new URL("../../..", import.meta.url),
      stdio: ["ignore", "ignore", "inherit"],
    });
    const files = readdirSync(join(out, "cells"));
    assert.equal(files.length, cells);
    for (const name of files) {
      const theirs = JSON.parse(readFileSync(join(out, "cells", name), "utf8"));
      const ours = found.get(theirs.id);
      assert.equal(ours.fingerprint, theirs.fingerprint, theirs.id);
      assert.deepEqual(ours.flows, theirs.flows);
    }
  } finally {
    rmSync(out, { recursive: true });
  }
  console.log(`${cells} cells: every event as in the program`);
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

async function open(address, options = {}) {
  const page = await browser.newPage(options);
  page.setDefaultTimeout(120_000);
  page.on("pageerror", (error) => assert.fail(`error in the page: ${error}`));
  page.on("console", (message) => {
    if (message.type() === "error") assert.fail(`said by the page: ${message.text()}`);
  });
  page.on("request", (request) => assert.match(request.url(), /^(file|blob|data):/));
  await page.goto(address);
  await page.waitForSelector("html[data-ready]");
  return page;
}

const says = (page, words) => page.waitForFunction((words) => new RegExp(words).test(document.querySelector("#status").textContent), words);
const status = (page) => page.locator("#status").textContent();

async function accessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ iframes: false }));
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
}

try {
  if (howdah) await asTheProgram();

  // The example, and its report.
  const page = await open(url, { viewport: { width: 1400, height: 900 } });
  assert.match(await page.locator("#text").inputValue(), /^# A worked example/);
  await page.locator("#text").press("Control+Enter");
  await says(page, "^4 of 4 cells in ");
  console.log(`the example: ${await status(page)}`);
  const report = page.frameLocator("#report");
  await report.locator("svg.marks").first().waitFor();
  assert.equal(await report.locator("html").getAttribute("data-error"), null);
  assert.match(await report.locator("body").textContent(), /two flows with different round-trip times/i);
  assert.match(page.url(), /#scenario=scenarios%2Fexample\.toml&quick=1$/);
  assert.equal(await page.locator("#save").getAttribute("download"), "report.html");

  // A scenario of one's own is in its link, with what it includes.
  const own = (await page.locator("#text").inputValue())
    .replace(/^protocol = \["howdah", "reno"\]/m, 'protocol = ["cubic"] # “mine”')
    .replace(/^title = .*/m, 'title = "Mine"');
  await page.locator("#text").fill(own);
  await page.locator("#link").click();
  await says(page, "^the link is in ");
  const other = await open(page.url());
  assert.equal(await other.locator("#text").inputValue(), own);
  assert.equal(await other.locator("#quick").isChecked(), true);
  await other.locator("#run").click();
  await says(other, "^2 of 2 cells in ");
  await other.frameLocator("#report").getByText("Mine").first().waitFor();
  // Cut off, it says so.
  await other.goto("about:blank");
  await other.goto(page.url().slice(0, -40));
  await says(other, "cut off or changed");
  await other.close();

  // What is wrong has its line, and nothing is lost.
  await page.locator("#text").fill(own.replace("protocol =", "protocl ="));
  await page.locator("#run").click();
  await says(page, "scenarios/example\\.toml:\\d+: .*protocol");
  assert.equal(await page.locator("#run").isEnabled(), true);

  // Stopped, it shows what there is.
  await page.locator("#choice").selectOption("scenarios/company.toml");
  await page.locator("#quick").uncheck();
  await page.locator("#run").click();
  await page.locator("#stop").click();
  await says(page, "^stopped; \\d+ of \\d+ cells are in the report");

  await accessible(page);
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [400, 1400]) {
      const small = await open(`${url}#scenario=scenarios%2Fexample.toml&quick=1`, { colorScheme, viewport: { width, height: 900 } });
      const wide = await small.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} pixels wide of ${width}`);
      await accessible(small);
      if (pictures) {
        await small.locator("#run").click();
        await says(small, "^4 of 4 cells in ");
        await small.frameLocator("#report").getByRole("heading", { name: "All protocols" }).waitFor();
        await small.screenshot({ path: join(pictures, `lab-web-${colorScheme}-${width}.png`), fullPage: true });
      }
      await small.close();
    }
  }
  console.log("the page: as it should be");
} finally {
  await browser.close();
}
