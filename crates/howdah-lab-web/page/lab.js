// The page: a scenario, a run over all cores, a report.
const element = (id) => document.getElementById(id);
const [choice, quick, text, run, stop, link, save, progress, status, failures, report] = [
  "choice", "quick", "text", "run", "stop", "link", "save", "progress", "status", "failures", "report",
].map(element);
const SCENARIOS = JSON.parse(element("scenarios").textContent);
const FIRST = "scenarios/example.toml";
const encoder = new TextEncoder();
const decoder = new TextDecoder();

// ---- bytes ---------------------------------------------------------------------------------------

const fromBase64 = (letters) => Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** What may stand in an address. */
async function packed(words) {
  const bytes = await through(new CompressionStream("deflate-raw"), encoder.encode(words));
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return letters.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpacked(letters) {
  const bytes = fromBase64(letters.replaceAll("-", "+").replaceAll("_", "/"));
  return decoder.decode(await through(new DecompressionStream("deflate-raw"), bytes));
}

// ---- address -------------------------------------------------------------------------------------

async function address() {
  const words = new URLSearchParams();
  words.set("scenario", choice.value);
  if (quick.checked) words.set("quick", "1");
  if (text.value !== SCENARIOS[choice.value]) words.set("text", await packed(text.value));
  return `#${words}`;
}

async function fromAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const path = words.get("scenario") ?? FIRST;
  choice.value = path in SCENARIOS ? path : FIRST;
  quick.checked = words.has("scenario") ? words.get("quick") === "1" : true;
  text.value = SCENARIOS[choice.value];
  if (words.has("text")) {
    try {
      text.value = await unpacked(words.get("text"));
    } catch {
      say("the scenario in the address is cut off or changed: ask for the link again", true);
    }
  } else if (path !== choice.value) {
    say(`there is no ${path} here; this is ${FIRST}`, true);
  }
}

// ---- instances of the laboratory -----------------------------------------------------------------

const module = (async () => {
  const bytes = fromBase64(element("wasm").textContent);
  return WebAssembly.compile(await through(new DecompressionStream("gzip"), bytes));
})();
const source = URL.createObjectURL(new Blob([element("worker").textContent], { type: "text/javascript" }));

class Laboratory {
  #worker = new Worker(source);
  #waiting = new Map();
  #next = 0;

  constructor() {
    this.#worker.onmessage = ({ data }) => {
      const { resolve, reject } = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.well) resolve(data.value);
      else reject(Object.assign(new Error(decoder.decode(data.value)), { dead: data.dead === true }));
    };
  }

  call(call, more = {}) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call, ...more });
    });
  }

  static async open(request) {
    const laboratory = new Laboratory();
    try {
      const opened = await laboratory.call("open", { module: await module, request });
      return { laboratory, cells: JSON.parse(decoder.decode(opened)).cells };
    } catch (error) {
      laboratory.end();
      throw error;
    }
  }

  end() {
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(new Error("stopped"));
    this.#waiting.clear();
  }
}

// ---- a run ---------------------------------------------------------------------------------------

let course;

function say(words, isError = false) {
  status.textContent = words;
  status.classList.toggle("error", isError);
}

class Course {
  #stopped = false;
  #workers = new Set();

  stop() {
    this.#stopped = true;
    for (const worker of this.#workers) worker.end();
  }

  async run(request) {
    const { laboratory: collector, cells } = await Laboratory.open(request);
    try {
      const work = cells.reduce((sum, cell) => sum + cell.cost, 0);
      const open = cells.map((cell, index) => ({ ...cell, index })).sort((a, b) => b.cost - a.cost);
      let done = 0;
      let share = 0;
      const began = performance.now();
      const one = async () => {
        let worker;
        while (open.length > 0 && !this.#stopped) {
          const cell = open.shift();
          try {
            if (!worker) {
              worker = (await Laboratory.open(request)).laboratory;
              this.#workers.add(worker);
              // Stopped while it was opened: nobody has ended this one.
              if (this.#stopped) break;
            }
            const { index } = cell;
            const start = performance.now();
            const result = await worker.call("run", { index });
            await collector.call("add", { index, result, seconds: (performance.now() - start) / 1000 });
            done += 1;
          } catch (error) {
            if (this.#stopped) return;
            fails(cell.name, error.message);
            if (error.dead) {
              worker?.end();
              worker = undefined;
            }
          }
          share += cell.cost / work;
          progress.value = share;
          say(`${done} of ${cells.length} cells`);
        }
        worker?.end();
      };
      const cores = Math.min(navigator.hardwareConcurrency || 2, cells.length, 16);
      await Promise.all(Array.from({ length: cores }, one));
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      if (done > 0) show(await collector.call("report"));
      const words = this.#stopped ? `stopped; ${done} of ${cells.length} cells are in the report` : `${done} of ${cells.length} cells in ${seconds} s`;
      say(words, done < cells.length && !this.#stopped);
    } finally {
      collector.end();
    }
  }
}

function fails(name, why) {
  const item = document.createElement("li");
  item.textContent = `${name}: ${why}`;
  failures.append(item);
  failures.hidden = false;
}

function show(page) {
  const shown = new Blob([page], { type: "text/html" });
  if (save.href) URL.revokeObjectURL(save.href);
  save.href = URL.createObjectURL(shown);
  save.hidden = false;
  report.src = save.href;
  report.hidden = false;
}

async function start() {
  const mine = await address();
  history.replaceState(null, "", mine);
  failures.replaceChildren();
  failures.hidden = true;
  progress.value = 0;
  progress.hidden = false;
  run.disabled = true;
  stop.disabled = false;
  say("begins");
  course = new Course();
  const request = JSON.stringify({
    path: choice.value,
    files: { ...SCENARIOS, [choice.value]: text.value },
    quick: quick.checked,
    machine: { browser: navigator.userAgent, cores: String(navigator.hardwareConcurrency) },
    address: location.href,
    started_unix_s: Math.floor(Date.now() / 1000),
  });
  try {
    await course.run(request);
  } catch (error) {
    say(error.message, true);
  }
  progress.hidden = true;
  run.disabled = false;
  stop.disabled = true;
}

// ---- the page ------------------------------------------------------------------------------------

for (const path of Object.keys(SCENARIOS)) {
  const name = path.split("/").at(-1);
  if (!path.endsWith(".toml") || name.startsWith("_")) continue;
  const title = /^title *= *"([^"]*)"/m.exec(SCENARIOS[path])?.[1];
  choice.append(new Option(title ? `${path.replace("scenarios/", "")} – ${title}` : path.replace("scenarios/", ""), path));
}
choice.addEventListener("change", () => {
  text.value = SCENARIOS[choice.value];
});
element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!run.disabled) start();
});
stop.addEventListener("click", () => course?.stop());
link.addEventListener("click", async () => {
  history.replaceState(null, "", await address());
  try {
    await navigator.clipboard.writeText(location.href);
    say("the link is in the clipboard");
  } catch {
    say("the link is in the address bar");
  }
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element("form").requestSubmit();
});
addEventListener("hashchange", fromAddress);
await fromAddress();
document.documentElement.dataset.ready = "";
