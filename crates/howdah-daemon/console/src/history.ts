// All jobs that are known: looked for, filtered, and done again.

import { get, type Job } from "./api.ts";
import { attempt, button, field, h, line, say, table } from "./dom.ts";
import { again, showOutput } from "./job.ts";
import { may } from "./store.ts";
import type { View } from "./view.ts";
import { command, time } from "./words.ts";

const PAGE = 1000;
const STATES = ["", "waiting", "held", "running", "done", "failed", "cancelled"];

// One row is made and copied: 5,000 of them are there at once.
const HEADS = ["Job", "State", "Command", "Submitted", "Actions"];
const pattern = line(
  HEADS,
  h("button", { type: "button", class: "link", "data-does": "details" }),
  h("span", { class: "state" }),
  h("code", {}),
  null,
  h("button", { type: "button", "data-does": "again" }, "Again"),
);

function row(job: Job): HTMLTableRowElement {
  const made = pattern.cloneNode(true) as HTMLTableRowElement;
  const cells = made.children;
  made.dataset["job"] = String(job.id);
  made.dataset["state"] = job.state;
  const number = (cells[0] as HTMLElement).firstChild as HTMLElement;
  number.textContent = String(job.id);
  number.setAttribute("aria-label", `Details: job ${job.id}`);
  const does = (cells[4] as HTMLElement).firstChild as HTMLElement;
  if (may("submit")) does.setAttribute("aria-label", `Again: job ${job.id}`);
  else does.remove();
  ((cells[1] as HTMLElement).firstChild as HTMLElement).textContent = job.state;
  const labels = job.spec.labels?.length ? ` [${job.spec.labels.join(", ")}]` : "";
  ((cells[2] as HTMLElement).firstChild as HTMLElement).textContent = command(job);
  if (labels || job.reason) (cells[2] as HTMLElement).append(labels, job.reason ? ` (${job.reason})` : "");
  (cells[3] as HTMLElement).textContent = time(job.submitted_ms);
  return made;
}

export function history(): View {
  const text = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const state = h("select", {}, ...STATES.map((name) => h("option", { value: name }, name || "any")));
  const label = h("input", { type: "search", autocomplete: "off" });
  const host = h("input", { type: "search", autocomplete: "off" });
  const body = h("tbody", { class: "many" });
  const count = h("p", { role: "status", class: "hint" });
  const found = new Map<number, Job>();
  let before: number | null = null;
  let asked = 0;

  const load = async (): Promise<void> => {
    const own = ++asked;
    const wanted = new URLSearchParams({ limit: String(PAGE) });
    for (const [name, input] of [["text", text], ["state", state], ["label", label], ["host", host]] as const) {
      if (input.value.trim()) wanted.set(name, input.value.trim());
    }
    if (before !== null) wanted.set("before", String(before));
    const page = await get<{ jobs: Job[]; next_before: number | null }>(`/v1/jobs?${wanted}`);
    // Somebody has asked for something else meanwhile.
    if (own !== asked) return;
    if (before === null) {
      found.clear();
      body.replaceChildren();
    }
    const rows = document.createDocumentFragment();
    for (const job of page.jobs) {
      found.set(job.id, job);
      rows.append(row(job));
    }
    body.append(rows);
    before = page.next_before;
    older.hidden = before === null;
    say(count, `${found.size} jobs${before === null ? "" : ", and older ones"}`);
  };
  const anew = (): void => {
    before = null;
    void attempt(load);
  };
  const older = button("Older ones", () => attempt(load), { hidden: true });
  body.addEventListener("click", (event) => {
    const does = (event.target as HTMLElement).dataset["does"];
    const job = found.get(Number((event.target as Element).closest("tr")?.dataset["job"]));
    if (!job || !does) return;
    if (does === "again") again(job);
    else showOutput(job.id);
  });
  let timer = 0;
  const later = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(anew, 250);
  };
  for (const input of [text, label, host]) input.addEventListener("input", later);
  state.addEventListener("change", anew);
  const form = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Jobs", onsubmit: (event) => (event.preventDefault(), anew()) },
    field("Words", text),
    field("State", state),
    field("Label", label),
    field("Machine", host),
  );
  const element = h(
    "section",
    { "aria-labelledby": "view-title" },
    h("h2", { id: "view-title" }, "History"),
    form,
    count,
    table("Jobs, the newest first", HEADS, body, true),
    h("p", { class: "buttons" }, older),
  );
  anew();
  return { element };
}
