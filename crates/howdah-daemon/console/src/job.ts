// One job: all about it, and what it said.

import { get, type Attempt, type Job, type Output, type Said, type Spec } from "./api.ts";
import { attempt, button, h, put, say } from "./dom.ts";
import { bytes, command, duration, ending, rate, time } from "./words.ts";

let prefilled: Spec | null = null;

// To be looked at, changed, and submitted.
export function again(job: Job): void {
  prefilled = job.spec;
  location.hash = "#submit";
}

export function takePrefilled(): Spec | null {
  const spec = prefilled;
  prefilled = null;
  return spec;
}

function how(attempt: Attempt): string {
  const ended = attempt.ended;
  if (ended === null) return "runs";
  if (typeof ended === "string") return ended.replace("_", " ");
  if (ended.code !== undefined) return `ended with code ${ended.code}`;
  return ended.signal !== undefined ? `killed by signal ${ended.signal}` : `could not be started: ${ended.cannot_start}`;
}

function summary(last: Said): string {
  const number = (name: string): number => Number(last[name] ?? 0);
  const parts = [`${bytes(number("bytes"))} in ${duration(number("seconds"))}`, rate(number("goodput_bps"))];
  if (last["bottleneck"]) parts.push(`held up by: ${String(last["bottleneck"])}`);
  if (last["verified"]) parts.push(`verified: ${String(last["verified"])}`);
  return parts.join(" · ");
}

// A dialog that is closed by Escape, by its button, and by itself when the view goes.
export function dialog(title: string, ...content: (Node | string | null)[]): HTMLDialogElement {
  const own = h("dialog", { "aria-labelledby": "dialog-title" });
  const close = button("Close", () => own.close());
  put(own, [h("h2", { id: "dialog-title" }, title), ...content, h("p", { class: "buttons" }, close)]);
  own.addEventListener("close", () => own.remove());
  document.body.append(own);
  own.showModal();
  return own;
}

export function showOutput(id: number): void {
  void attempt(async () => {
    const job = await get<Job>(`/v1/jobs/${id}`);
    const facts = h("dl", {});
    const fact = (name: string, value: string | null | undefined | false): void => {
      if (value) facts.append(h("dt", {}, name), h("dd", {}, value));
    };
    fact("State", job.state);
    fact("How it ended", ["done", "failed", "cancelled"].includes(job.state) && ending(job));
    fact("Result", job.last?.event === "summary" && summary(job.last));
    fact("Directory", job.spec.directory);
    fact("Labels", job.spec.labels?.join(", "));
    fact("Submitted", time(job.submitted_ms));
    fact("Ended", job.ended_ms !== null && time(job.ended_ms));
    fact("Limit", job.limit);
    fact("After", job.spec.after?.join(", "));
    fact("Tried again", `at most ${job.spec.retries ?? 3} times`);
    const attempts = h("ul", {});
    for (const one of job.attempts) attempts.append(h("li", {}, `Attempt ${one.number} from ${time(one.started_ms)}: ${how(one)}`));
    const log = h("pre", { tabindex: 0, "aria-label": "What it said" }, "…");
    const history = h("ul", {});
    for (const one of job.history.slice(-20)) history.append(h("li", {}, `${time(one.time_ms)} ${one.what.replace("_", " ")}${one.why ? `: ${one.why}` : ""}`));
    dialog(
      `Job ${id}`,
      h("p", {}, h("code", {}, command(job))),
      facts,
      job.attempts.length > 0 ? h("h3", {}, "Attempts") : null,
      attempts,
      h("h3", {}, "History"),
      history,
      h("h3", {}, "Warnings and errors"),
      log,
    );
    if (job.attempts.length === 0) return say(log, "It has not begun.");
    const said = await get<Output>(`/v1/jobs/${id}/output?event=warning,error&limit=200`);
    const lines = said.events.map((event) => event.error?.message ?? event.message ?? "");
    say(log, lines.join("\n") || "None.");
  });
}
