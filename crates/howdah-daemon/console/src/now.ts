// Jobs that are not over, and those that ended a moment ago.

import { post, type Job } from "./api.ts";
import { Charts } from "./charts.ts";
import { attempt, button, fill, h, news, say } from "./dom.ts";
import { Slider } from "./slider.ts";
import { about, jobs, loadSeries, may, progress, series, type Told } from "./store.ts";
import { bytes, command, duration, ending, heldUp, isPaused, millis, percent, rate, time } from "./words.ts";
import type { View } from "./view.ts";
import { again, showOutput } from "./job.ts";

// Of more, the history has the rest.
const MOST = 100;
// More curves at once nobody looks at.
const OPEN = 3;

const isOver = (job: Job): boolean => job.ended_ms !== null && !["running", "waiting", "held"].includes(job.state);

const order = (job: Job): number => (job.state === "running" ? 0 : isOver(job) ? 2 : 1);

class Card {
  readonly element: HTMLElement;
  private readonly state = h("span", { class: "state" });
  private readonly bar = h("progress", { max: 1000 });
  private readonly facts = h("p", { class: "facts" });
  private readonly held = h("p", { class: "held" });
  private readonly buttons = h("p", { class: "buttons" });
  private readonly more = h("details", {}, h("summary", {}, "Curves and limit"));
  private readonly slider: Slider;
  private charts: Charts | null = null;
  private shownButtons = "";

  constructor(private job: Job) {
    const id = `job-${job.id}`;
    this.bar.setAttribute("aria-label", `Progress of job ${job.id}`);
    this.slider = new Slider(`Limit of job ${job.id}`, (limit) => this.limit(limit), may("submit"));
    this.more.append(this.slider.element);
    this.more.addEventListener("toggle", () => this.toggled());
    this.element = h(
      "article",
      { "aria-labelledby": id, "data-job": job.id },
      h("h3", { id }, this.state, ` ${job.id} `, h("code", {}, command(job))),
      job.spec.labels?.length ? h("p", { class: "hint" }, `Labels: ${job.spec.labels.join(", ")}`) : null,
      this.bar,
      this.facts,
      this.held,
      this.more,
      this.buttons,
    );
    this.show(job);
  }

  open(): void {
    this.more.open = true;
  }

  private limit(limit: string): void {
    void attempt(() => post(`/v1/jobs/${this.job.id}/limit`, { limit }));
  }

  private toggled(): void {
    if (!this.more.open) {
      this.charts?.close();
      this.charts?.element.remove();
      this.charts = null;
    } else if (!this.charts) {
      this.charts = new Charts();
      this.more.append(this.charts.element);
      this.curves();
      loadSeries(this.job.id).then(() => this.curves()).catch(() => {});
    }
  }

  private curves(): void {
    this.charts?.show(series.get(this.job.id) ?? []);
  }

  show(job: Job): void {
    this.job = job;
    const said = progress.get(job.id);
    const running = job.state === "running";
    this.element.dataset["state"] = job.state;
    say(this.state, job.cancelling && !isOver(job) ? "cancelling" : job.state);
    this.bar.hidden = !running;
    const total = said?.total_bytes;
    if (said && total) {
      this.bar.value = Math.round((1000 * said.bytes) / total);
      this.bar.setAttribute("aria-valuetext", `${Math.floor((100 * said.bytes) / total)} percent`);
    } else this.bar.removeAttribute("value");
    const facts: string[] = [];
    if (running && said) {
      facts.push(`Goodput ${rate(said.goodput_bps)}`, `loss ${percent(said.loss_rate)}`, `round trip ${millis(said.rtt_us)}`, `queue ${millis(said.queue_us)}`);
      facts.push(total ? `${bytes(said.bytes)} of ${bytes(total)}` : bytes(said.bytes));
      if (said.files_total) facts.push(`${said.files_done ?? 0} of ${said.files_total} files`);
      if (said.eta_seconds !== null) facts.push(`${duration(said.eta_seconds)} to go`);
    } else if (isOver(job)) facts.push(`Ended ${time(job.ended_ms ?? 0)}`);
    else facts.push(`Submitted ${time(job.submitted_ms)}`);
    say(this.facts, facts.join(" · "));
    const why = isOver(job) ? ending(job) : `Held up by: ${heldUp(job, said, jobs.values(), about)}`;
    say(this.held, why);
    this.more.hidden = !running;
    this.slider.show(said?.limit_bps ?? null, said?.limit_bps === 0 ? "paused" : said?.limit_bps ? rate(said.limit_bps) : "no limit");
    if (this.more.open) this.curves();
    this.offer(job, said !== undefined && isPaused(said));
  }

  private offer(job: Job, paused: boolean): void {
    const offered: [string, () => unknown][] = [];
    const act = (what: string, done: string) => () =>
      attempt(async () => {
        await post(`/v1/jobs/${job.id}/${what}`);
        news(`Job ${job.id} ${done}`);
      });
    if (may("submit")) {
      if (job.state === "running" && paused) offered.push(["Go on", () => this.limit("auto")]);
      else if (job.state === "running" && job.spec.kind !== "verify") offered.push(["Pause", () => this.limit("pause")]);
      if (job.state === "waiting") offered.push(["Hold", act("hold", "is held")]);
      if (job.state === "held") offered.push(["Release", act("release", "is released")]);
      if (job.state === "waiting" && job.not_before_ms) offered.push(["Try now", act("release", "is tried now")]);
      if (!isOver(job) && !job.cancelling) offered.push(["Cancel", act("cancel", "is cancelled")]);
      if (isOver(job)) offered.push(["Again", () => again(job)]);
    }
    offered.push(["Details", () => showOutput(job.id)]);
    const names = offered.map(([name]) => name).join(" ");
    if (names === this.shownButtons) return;
    // Whoever stands on a button stays on it, if it is still there.
    const focused = this.buttons.contains(document.activeElement) ? document.activeElement?.textContent : null;
    this.shownButtons = names;
    fill(this.buttons, ...offered.map(([name, does]) => button(name, does, { "aria-label": `${name}: job ${job.id}` })));
    if (focused) {
      const buttons = [...this.buttons.querySelectorAll("button")];
      (buttons.find((own) => own.textContent === focused) ?? buttons[0])?.focus();
    }
  }

  close(): void {
    this.charts?.close();
  }
}

export function now(): View {
  const cards = new Map<number, Card>();
  const list = h("div", { class: "cards" });
  const none = h("p", {}, "Nothing runs and nothing waits. ", h("a", { href: "#submit" }, "Submit a job"));
  const more = h("p", { class: "hint" });
  const element = h("section", { "aria-labelledby": "view-title" }, h("h2", { id: "view-title" }, "Jobs now"), none, list, more);

  const show = (told: Told): void => {
    if (typeof told === "number") {
      const job = jobs.get(told);
      const card = cards.get(told);
      if (job && card && card.element.dataset["state"] === job.state) return card.show(job);
    }
    const shown = [...jobs.values()].sort((a, b) => order(a) - order(b) || (order(a) === 2 ? (b.ended_ms ?? 0) - (a.ended_ms ?? 0) : a.id - b.id));
    const seen = shown.slice(0, MOST);
    for (const [id, card] of cards) {
      if (seen.some((job) => job.id === id)) continue;
      card.close();
      card.element.remove();
      cards.delete(id);
    }
    let before: Element | null = null;
    for (const job of seen) {
      let card = cards.get(job.id);
      if (card) card.show(job);
      else {
        card = new Card(job);
        cards.set(job.id, card);
      }
      // What stands in its place is not moved: it may have the focus.
      const place: Element | null = before ? before.nextElementSibling : list.firstElementChild;
      if (place !== card.element) list.insertBefore(card.element, place);
      before = card.element;
      const running = seen.filter((other) => other.state === "running").length;
      if (job.state === "running" && running <= OPEN && !card.element.dataset["opened"]) {
        card.element.dataset["opened"] = "yes";
        card.open();
      }
    }
    none.hidden = seen.length > 0;
    say(more, shown.length > MOST ? `${shown.length - MOST} more wait: the history has all of them` : "");
  };
  show("all");
  return { element, told: show, close: () => cards.forEach((card) => card.close()) };
}
