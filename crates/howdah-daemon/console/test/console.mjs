// The page in a real browser, as howdah-cli's tests/console.rs starts it: it has the site, and kills and starts the daemon when it is
// told to on standard output. Everything is found by its role and its name, as a screen reader finds it.
import { readFileSync, mkdirSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const { ADDRESS, STATE, TO, FILES, SHOTS, CHROMIUM, SCREENSHOT } = process.env;
const base = `http://${ADDRESS}/`;
const PATIENCE = 60_000;
const MANY = 5_000;
mkdirSync(SHOTS, { recursive: true });

// What the site says; when it is gone, so are we.
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function site(order) {
  console.log(`SITE ${order}`);
  const { value, done } = await lines.next();
  if (done || value !== "ok") process.exit(3);
}

const token = (role) => readFileSync(`${STATE}/tokens`, "utf8").match(new RegExp(`^${role} (\\S+)$`, "m"))[1];

// The API over the daemon's socket: no rate is limited there.
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
function api(method, path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { socketPath: `${STATE}/socket`, method, path, agent, headers: { Host: "localhost", "Content-Type": "application/json" } },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part) => (text += part)).on("end", () => resolve(text ? JSON.parse(text) : null));
      },
    );
    request.on("error", reject);
    request.end(body && JSON.stringify(body));
  });
}

async function until(what, test, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await test();
    if (found) return found;
    assert(Date.now() < end, `it never came: ${what}`);
  }
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, colorScheme: "light" });
context.setDefaultTimeout(PATIENCE);
const page = await context.newPage();
const wrong = [];
page.on("pageerror", (error) => wrong.push(String(error)));
page.on("console", (message) => {
  // That a daemon is away, and that a token is wrong, the browser says, too.
  const expected = /Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|net::ERR/;
  if (message.type() === "error" && !expected.test(message.text())) wrong.push(message.text());
});
page.on("request", (request) => {
  if (!request.url().startsWith(base) && !request.url().startsWith("data:,")) wrong.push(`asked another: ${request.url()}`);
});

// PAGE=built: what lies there instead of what the program has in it, for who works on the page and does not build the program anew.
if (process.env.PAGE) {
  for (const [part, kind] of [["console.js", "text/javascript"], ["style.css", "text/css"]]) {
    await page.route(base + part, (route) => route.fulfill({ path: `${process.env.PAGE}/${part}`, contentType: kind }));
  }
}

async function accessible(where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map((node) => node.html).slice(0, 3)]), [], where);
}

// At both widths, light and dark, and nothing that sticks out.
async function look(name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await accessible(`${name}, ${colorScheme}`);
    for (const width of [1400, 400]) {
      await page.setViewportSize({ width, height: 900 });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(over, 0, `${name} at ${width} sticks out by ${over}`);
      await page.screenshot({ path: `${SHOTS}/${name}-${colorScheme}-${width}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1400, height: 900 });
}

const go = (name) => page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
const card = (id) => page.locator(`article[data-job="${id}"]`);
const step = (name) => console.log(`== ${name}`);

step("nobody gets in with a wrong token");
await page.goto(base);
await page.getByRole("heading", { name: "Log in" }).waitFor();
await look("login");
await page.getByLabel("Token").fill("0".repeat(64));
await page.keyboard.press("Enter");
await page.getByRole("alert").getByText("This is no token of this daemon").waitFor();
assert.equal(await page.evaluate(() => sessionStorage.length), 0);

step("who may only look sees no buttons that do something");
await page.getByLabel("Token").fill(token("read"));
await page.keyboard.press("Enter");
await page.getByRole("heading", { name: "Jobs now" }).waitFor();
await go("Submit");
await page.getByText("Your token may only look").waitFor();
await go("Schedules");
await page.getByText("A token of 'admin' may change them").waitFor();
await page.getByRole("button", { name: "Log out" }).click();

step("a ticket lets in once");
const { ticket } = await api("POST", "/v1/tickets");
await page.goto(`${base}#ticket=${ticket}`);
await page.reload();
await page.getByRole("heading", { name: "Jobs now" }).waitFor();
assert(!page.url().includes("ticket"), page.url());
await page.getByRole("status").getByText("Connected").waitFor();

step("a directory is browsed, tried dry, and copied");
await go("Submit");
await page.getByLabel("Directory", { exact: true }).evaluate((input) => (input.closest("details").open = true));
await page.getByRole("button", { name: "Browse for the source" }).click();
const browse = page.getByRole("dialog");
await browse.getByRole("button", { name: "Choose this directory" }).waitFor();
await page.keyboard.press("Escape");
await page.getByLabel("From").fill(FILES);
await page.getByRole("button", { name: "Browse for the source" }).click();
await browse.getByRole("button", { name: "tree/" }).click();
await browse.getByText("/tree").first().waitFor();
await browse.getByRole("button", { name: "Choose this directory" }).click();
assert.equal(await page.getByLabel("From").inputValue(), `${FILES}/tree`);
await page.getByLabel("To", { exact: true }).fill(TO);
await page.getByRole("checkbox", { name: "--recursive" }).check();
await page.getByRole("checkbox", { name: "--accept-new" }).check();
await page.getByRole("textbox", { name: "Value of --limit" }).fill("2mbit");
await page.getByRole("button", { name: "Dry run" }).click();
await page.getByRole("heading", { name: "What would be done" }).waitFor();
await page.locator(".tree").getByText("large").first().waitFor();
await page.locator(".tree li[data-what=copy]").first().waitFor();
await look("dry-run");
await page.getByRole("button", { name: "Go: do that" }).click();

step("it is watched, limited, paused, and goes on");
await page.getByRole("heading", { name: "Jobs now" }).waitFor();
const first = await until("a job that runs", async () => (await api("GET", "/v1/jobs?state=running")).jobs[0]?.id);
await card(first).getByText("Goodput").first().waitFor();
await card(first).getByText("round trip").first().waitFor();
await card(first).getByText("Held up by: ").waitFor();
await card(first).locator("canvas").first().waitFor();
await until("curves", () => card(first).getByText("now ").count());
const slider = card(first).getByRole("slider");
await slider.focus();
for (let n = 0; n < 3; n++) await page.keyboard.press("ArrowLeft");
const limited = await until("a limit", async () => (await api("GET", `/v1/jobs/${first}`)).limit);
assert.match(limited, /^\d+[kmg]bit$/);
await card(first).getByRole("button", { name: `Pause: job ${first}` }).click();
await card(first).getByText("paused, by a limit of nothing").waitFor();
await card(first).getByRole("button", { name: `Go on: job ${first}` }).click();
await until("that it goes on", async () => (await api("GET", `/v1/jobs/${first}`)).limit === null);
await until("that its button says so", () => card(first).getByRole("button", { name: `Pause: job ${first}` }).count());

step("the daemon is killed and comes again: the page says so, and the job goes on");
await site("kill");
await page.getByRole("status").getByText("does not answer").waitFor();
await site("start");
await page.getByRole("status").getByText("the daemon was restarted").waitFor();
await card(first).getByText("Goodput").first().waitFor();
assert.equal((await api("GET", `/v1/jobs/${first}`)).attempts.length, 1);

step("its process is killed, too: it is tried again, and the page shows it");
process.kill((await api("GET", `/v1/jobs/${first}`)).attempts[0].pid, "SIGKILL");
const retried = await until("another attempt", async () => {
  const job = await api("GET", `/v1/jobs/${first}`);
  return job.attempts.length === 2 && job.state === "running" && job;
});
// This daemon did not start it: that it is gone is all that is known.
assert.equal(retried.attempts[0].ended, "vanished");
await card(first).getByText("Goodput").first().waitFor();
await until("a queue of figures", async () => (await api("GET", `/v1/jobs/${first}/output?event=progress`)).events.length > 6);

step("a schedule is added whose time comes every minute");
await go("Schedules");
await page.getByLabel("Time", { exact: true }).fill("* * * * *");
await page.getByLabel("Job", { exact: true }).fill(`verify '${FILES}/tree' '${FILES}/tree'`);
await page.getByRole("button", { name: "Add", exact: true }).click();
await page.getByRole("button", { name: "Pause schedule 1" }).waitFor();
await go("Now");

step("a failure has the words of its command");
const { id: failed } = await api("POST", "/v1/jobs", { kind: "cp", arguments: [`${FILES}/nothing`, TO], directory: "/", labels: ["doomed"] });
await card(failed).getByText("nothing").last().waitFor();
await card(failed).getByText("exit code 3").waitFor();
const { id: held } = await api("POST", "/v1/jobs", { kind: "verify", arguments: [`${FILES}/tree`, `${FILES}/tree`], directory: "/", hold: true, labels: ["night"] });
await card(held).getByText("held until somebody releases it").waitFor();
await look("now");
if (SCREENSHOT) {
  // For docs: something to be seen in the curves, and no names of this machine, which say nothing to a reader.
  for (const [limit, events] of [["700kbit", 16], ["auto", 26]]) {
    await api("POST", `/v1/jobs/${first}/limit`, { limit });
    await until("curves", async () => (await api("GET", `/v1/jobs/${first}/output?event=progress`)).events.length > events);
  }
  await page.setViewportSize({ width: 1040, height: 960 });
  await page.mouse.move(0, 0);
  await page.evaluate(([files, to]) => {
    scrollTo(0, 0);
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = texts.nextNode()); ) node.data = node.data.replaceAll(`${files}/tree`, "/data/run7").replaceAll(files, "/data").replaceAll(to, "site:store/");
  }, [FILES, TO]);
  await page.screenshot({ path: SCREENSHOT });
  await page.setViewportSize({ width: 1400, height: 900 });
}
await card(held).getByRole("button", { name: `Release: job ${held}` }).click();
await card(held).getByText("Ended").waitFor();
assert.equal((await api("GET", `/v1/jobs/${held}`)).state, "done");
await card(failed).getByRole("button", { name: `Details: job ${failed}` }).click();
await page.getByRole("dialog").getByText("trying again does not help").waitFor();
await accessible("a job's dialog");
await page.keyboard.press("Escape");

step("a directory of the other machine is browsed");
await go("Submit");
await page.getByLabel("To", { exact: true }).fill(TO.replace(/copy$/, ""));
await page.getByRole("button", { name: "Browse for the destination" }).click();
await browse.getByRole("button", { name: "copy/" }).click();
await browse.getByText(TO, { exact: true }).waitFor();
await browse.getByRole("button", { name: "Choose this directory" }).click();
assert.equal(await page.getByLabel("To", { exact: true }).inputValue(), TO);

step("what the daemon refuses is said in its words");
await go("Submit");
await page.getByLabel("From").fill(`${FILES}/tree`);
await page.getByLabel("To", { exact: true }).fill(TO);
await page.locator("summary", { hasText: "More" }).click();
await page.getByLabel("More options").fill("--ssh sh");
await page.getByRole("button", { name: "Submit", exact: true }).click();
await page.getByRole("alert").getByText("names a program to run").waitFor();
await look("submit");
await page.getByRole("button", { name: /^Dismiss/ }).first().click();

step("it is cancelled");
await go("Now");
await card(first).getByRole("button", { name: `Cancel: job ${first}` }).click();
await card(first).locator(".state").getByText("cancelled").waitFor();

step("history: looked for, filtered, again");
await go("History");
await page.getByLabel("Label").fill("doomed");
await until("one row", async () => (await page.locator("tbody tr").count()) === 1);
await page.getByRole("button", { name: `Again: job ${failed}` }).click();
await page.getByRole("heading", { name: "Submit a job" }).waitFor();
assert.equal(await page.getByLabel("From").inputValue(), `${FILES}/nothing`);
assert.equal(await page.getByLabel("To", { exact: true }).inputValue(), TO);
await go("History");
await page.getByLabel("Words").fill("NOTHING cp");
await until("one row again", async () => (await page.locator("tbody tr").count()) === 1);
await page.getByLabel("Words").fill("");
await page.getByLabel("State").selectOption("cancelled");
await until("the cancelled one", async () => (await page.locator("tbody tr").count()) === 1);
await page.getByLabel("State").selectOption("");
await look("history");

step("schedules, machines, limits");
await go("Schedules");
await page.getByLabel("Time", { exact: true }).fill("30 2 * * 1-5");
await page.getByLabel("Job", { exact: true }).fill(`sync '${FILES}/tree' ${TO}`);
await page.getByRole("button", { name: "Add", exact: true }).click();
await page.getByRole("button", { name: "Pause schedule 2" }).click();
await page.getByRole("button", { name: "Resume schedule 2" }).waitFor();
await page.getByLabel("Time", { exact: true }).fill("nonsense");
await page.getByRole("button", { name: "Add", exact: true }).click();
await page.getByRole("alert").locator("p").first().waitFor();
mkdirSync(`${FILES}/watched`);
await api("POST", "/v1/watches", { path: `${FILES}/watched`, job: { kind: "cp", arguments: [TO], directory: FILES } });
await go("Now");
await go("Schedules");
await page.getByRole("button", { name: "Pause watch 1" }).click();
await page.getByRole("button", { name: "Resume watch 1" }).waitFor();
await look("schedules");
await page.getByRole("button", { name: /^Dismiss/ }).first().click();
await go("Machines");
await page.getByRole("cell", { name: "127.0.0.1", exact: true }).waitFor();
await look("machines");
await go("Limits");
await page.getByText("There is no limit.").waitFor();
const all = page.getByRole("slider", { name: "What all running copies share" });
await all.focus();
await page.keyboard.press("ArrowLeft");
await page.keyboard.press("ArrowLeft");
await until("a limit of all", async () => (await api("GET", "/v1/limits")).allowed_bps > 1e9);
await look("limits");

step("the schedule has fired: its job is told of, and is done");
const fired = await until("a job of the schedule", async () => (await api("GET", "/v1/schedules/1")).last_job, 2 * PATIENCE);
await go("Schedules");
const scheduled = page.locator("tr", { has: page.getByRole("button", { name: "Pause schedule 1" }) });
await until("the number of its job", async () => Number(await scheduled.locator("td", { hasText: /^\d+$/ }).last().textContent()) >= fired);
await page.getByRole("button", { name: "Pause schedule 1" }).click();
await page.getByRole("button", { name: "Resume schedule 1" }).waitFor();
const { last_job: latest } = await api("GET", "/v1/schedules/1");
assert.equal((await api("GET", `/v1/jobs/${latest}?wait_seconds=60`)).state, "done");
await go("History");
await page.getByLabel("Words").fill(`${latest} verify`);
await page.getByRole("button", { name: `Again: job ${latest}` }).waitFor();
await page.getByLabel("Words").fill("");

step(`${MANY} jobs in the list`);
const { id: runs } = await api("POST", "/v1/jobs", { kind: "cp", arguments: ["--accept-new", "-r", "--limit", "64kbit", `${FILES}/tree`, `${TO}-slow`], directory: "/" });
const spec = (n) => ({ kind: "cp", arguments: ["-r", `/data/run ${n}`, `site${n % 7}:store/`], directory: "/data", hold: true, labels: ["many"] });
await Promise.all(Array.from({ length: 8 }, async (_, lane) => {
  for (let n = lane; n < MANY; n += 8) await api("POST", "/v1/jobs", spec(n));
}));
const cdp = await context.newCDPSession(page);
await cdp.send("Performance.enable");
const scripting = async () => (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ScriptDuration").value;
const before = await scripting();
await go("History");
// What comes without a label would look the same.
await page.getByLabel("Label").fill("doomed");
await until("one row", async () => (await page.locator("tbody tr").count()) === 1);
await page.getByLabel("Label").fill("many");
await until("many rows", async () => (await page.locator("tbody tr").count()) === 1000);
for (let n = 2; n * 1000 <= MANY; n++) {
  await page.getByRole("button", { name: "Older ones" }).click();
  await until(`${n} pages`, async () => (await page.locator("tbody tr").count()) === n * 1000);
}
// All of them, each once, and nothing besides.
const shown = await page.evaluate(() => {
  const rows = [...document.querySelectorAll("tbody tr")];
  const named = rows.map((row) => /\/data\/run (\d+)/.exec(row.textContent)?.[1]);
  return { numbers: new Set(named).size, rows: rows.length, without: named.filter((name) => name === undefined).length, elements: document.querySelectorAll("*").length };
});
assert.deepEqual([shown.numbers, shown.rows, shown.without], [MANY, MANY, 0]);
// What a row is made of is bounded, and so is the page.
assert(shown.elements <= 40 * MANY, `${shown.elements} elements`);
console.log(`${MANY} jobs in the list: ${((await scripting()) - before).toFixed(3)} s of scripting`);
await go("Now");
await page.getByText("more wait: the history has all of them").waitFor();
assert((await page.locator("article").count()) <= 100);
// Also for who comes later, what runs is in sight.
await page.reload();
await card(runs).getByText("Goodput").first().waitFor();
await card(runs).getByRole("button", { name: `Cancel: job ${runs}` }).click();
await until("its end", async () => (await api("GET", `/v1/jobs/${runs}`)).state === "cancelled");

assert.deepEqual(wrong, []);
await browser.close();
console.log("all is well");
process.exit(0);
