// Schedules, watched directories, machines and limits.

import { ask, get, post, type HostView, type Limits, type Schedule, type Watch } from "./api.ts";
import { attempt, button, field, fill, h, line, news, say, table, type Child } from "./dom.ts";
import { Slider } from "./slider.ts";
import { about, jobs, may, type Told } from "./store.ts";
import type { View } from "./view.ts";
import { command, duration, percent, rate, time, words } from "./words.ts";

const SCHEDULES = ["Number", "Time", "Next run", "Job", "Last", "Actions"];
const WATCHES = ["Number", "Directory", "Job", "Last", "Actions"];
const HOSTS = ["Machine", "Jobs", "Path as last measured", "Keys", "Limits"];
const COPIES = ["Job", "Command", "Limit", "Set"];

function section(title: string, ...content: Child[]): HTMLElement {
  return h("section", { "aria-labelledby": "view-title" }, h("h2", { id: "view-title" }, title), ...content);
}

// Pause or resume, remove.
function rule(path: string, name: string, paused: boolean, anew: () => void): HTMLElement {
  const act = (method: string, more: string, done: string) => () =>
    attempt(async () => {
      await ask(method, `${path}${more}`);
      news(`${name} ${done}`);
      anew();
    });
  const does = paused ? button("Resume", act("POST", "/resume", "goes on"), { "aria-label": `Resume ${name}` }) : button("Pause", act("POST", "/pause", "rests"), { "aria-label": `Pause ${name}` });
  return h("span", { class: "buttons" }, does, button("Remove", act("DELETE", "", "is removed"), { "aria-label": `Remove ${name}` }));
}

export function schedules(): View {
  const list = h("div", {});
  const load = (): void =>
    void attempt(async () => {
      const [found, watched] = await Promise.all([get<{ schedules: Schedule[] }>("/v1/schedules"), get<{ watches: Watch[] }>("/v1/watches")]);
      const when = (one: Schedule): string => (one.paused ? "paused" : one.next_ms ? time(one.next_ms) : "never");
      fill(
        list,
        found.schedules.length === 0 ? h("p", { class: "hint" }, "There are no schedules.") : table(
          "Schedules",
          SCHEDULES,
          h("tbody", {}, ...found.schedules.map((one) => line(SCHEDULES, one.id, h("span", {}, h("code", {}, one.spec.cron), ` ${one.spec.zone}`), when(one), h("span", {}, h("code", {}, command({ spec: one.spec.job })), one.note ? ` (${one.note})` : ""), one.last_job ?? "–", may("admin") ? rule(`/v1/schedules/${one.id}`, `schedule ${one.id}`, one.paused, load) : ""))),
        ),
        watched.watches.length === 0 ? h("p", { class: "hint" }, "No directory is watched; 'howdah watch add' adds one.") : table(
          "Watched directories",
          WATCHES,
          h("tbody", {}, ...watched.watches.map((one) => line(WATCHES, one.id, h("code", {}, one.spec.path), h("span", {}, h("code", {}, command({ spec: one.spec.job })), one.note ? ` (${one.note})` : one.paused ? " (paused)" : ""), one.last_job ?? "–", may("admin") ? rule(`/v1/watches/${one.id}`, `watch ${one.id}`, one.paused, load) : ""))),
        ),
      );
    });
  const cron = h("input", { type: "text", required: true, placeholder: "30 2 * * 1-5", autocomplete: "off" });
  const zone = h("input", { type: "text", value: Intl.DateTimeFormat().resolvedOptions().timeZone, autocomplete: "off" });
  const missed = h("select", {}, h("option", {}, "once"), h("option", {}, "skip"));
  const overlap = h("select", {}, h("option", {}, "skip"), h("option", {}, "allow"));
  const job = h("input", { type: "text", required: true, placeholder: "sync data site:data", autocomplete: "off", spellcheck: "false" });
  const directory = h("input", { type: "text", value: about?.allow[0] ?? about?.home ?? "/", autocomplete: "off" });
  const add = (): Promise<void> =>
    attempt(async () => {
      const [kind, ...rest] = words(job.value);
      const { id } = await post<{ id: number }>("/v1/schedules", { cron: cron.value, zone: zone.value, missed: missed.value, overlap: overlap.value, job: { kind, arguments: rest, directory: directory.value } });
      news(`Schedule ${id} was added`);
      load();
    });
  const form = h(
    "form",
    { onsubmit: (event) => (event.preventDefault(), void add()) },
    h("h3", {}, "Add a schedule"),
    field("Time", cron, "Minute, hour, day, month, day of the week; or @daily and the like"),
    field("Zone", zone, "An IANA name, UTC or local"),
    field("If its time was missed", missed),
    field("If the run before is not over", overlap),
    field("Job", job, "As after 'howdah job submit'"),
    field("Directory", directory, "What relative paths are relative to"),
    h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Add")),
  );
  load();
  const timer = window.setInterval(load, 15_000);
  return { element: section("Schedules", list, may("admin") ? form : h("p", { class: "hint" }, "A token of 'admin' may change them.")), close: () => clearInterval(timer) };
}

export function hosts(): View {
  const list = h("div", {});
  const load = (): void => void attempt(async () => show((await get<{ hosts: HostView[] }>("/v1/hosts")).hosts));
  const show = (found: HostView[]): void =>
    fill(
      list,
      found.length === 0 ? h("p", {}, "No job has spoken with another machine yet.") : null,
      found.length === 0 ? null : table(
        "Machines that jobs speak with",
        HOSTS,
        h("tbody", {}, ...found.map((host) => {
          const path = host.facts.path;
          const measured = path ? `${rate(path.capacity_bps)}, ${(path.rtt_seconds * 1e3).toFixed(1)} ms, ${percent(path.loss)} lost; ${duration(path.age_seconds)} ago` : "not measured";
          const keys = host.facts.keys.length > 0 ? h("span", {}, ...host.facts.keys.map((key) => h("code", {}, key))) : "none known";
          return line(HOSTS, h("b", {}, host.name), `${host.running} run, ${host.waiting} wait, ${host.jobs} known`, measured, keys, limits(host));
        })),
      ),
    );
  const limits = (host: HostView): HTMLElement => {
    const limit = h("input", { type: "text", size: 10, value: host.set.limit ?? "", placeholder: "no limit", "aria-label": `Limit of ${host.name}` });
    const most = h("input", { type: "number", min: 1, max: 1000, value: host.set.max_running ?? "", placeholder: String(about?.max_per_host ?? ""), "aria-label": `Jobs at a time with ${host.name}` });
    if (!may("admin")) return h("span", {}, host.set.limit ?? "no limit");
    const set = (): Promise<void> =>
      attempt(async () => {
        const spec = { limit: limit.value || null, max_running: most.value ? Number(most.value) : null };
        show((await ask<{ hosts: HostView[] }>("PUT", `/v1/hosts/${encodeURIComponent(host.name)}`, spec)).hosts);
        news(`Limits of ${host.name} are set`);
      });
    return h("form", { class: "inline", onsubmit: (event) => (event.preventDefault(), void set()) }, limit, most, h("button", { type: "submit", "aria-label": `Set limits of ${host.name}` }, "Set"));
  };
  load();
  return { element: section("Machines", list) };
}

export function limits(): View {
  const set = (limit: string): Promise<void> => attempt(async () => show(await ask<Limits>("PUT", "/v1/limits", { limit })));
  const slider = new Slider("What all running copies share", (limit) => void set(limit), may("admin"));
  const text = h("input", { type: "text", autocomplete: "off", placeholder: "mon-fri 08:00-18:00 500mbit, else none" });
  const from = h("p", { class: "hint" });
  const running = h("div", {});
  const perJob = new Map<number, { slider: Slider; row: HTMLElement; has: HTMLElement }>();
  const body = h("tbody", {});
  const show = (now: Limits): void => {
    slider.show(now.limit === null ? null : now.allowed_bps, now.allowed_bps === null ? (now.limit ?? "no limit") : rate(now.allowed_bps));
    say(from, now.limit === null ? "There is no limit." : `The limit is ${now.limit}, ${now.set ? "set here or by 'howdah job limit'" : "from the daemon's start"}.`);
  };
  // One row for each copy that runs; who is moved by somebody stays where it is.
  const copies = (): void => {
    const now = [...jobs.values()].filter((job) => job.state === "running" && job.spec.kind !== "verify");
    for (const [id, { row }] of perJob) if (!now.some((job) => job.id === id)) (row.remove(), perJob.delete(id));
    for (const job of now) {
      let own = perJob.get(job.id);
      if (!own) {
        const made = new Slider(`Limit of job ${job.id}`, (limit) => void attempt(() => post(`/v1/jobs/${job.id}/limit`, { limit })), may("submit"));
        const has = h("span", {});
        own = { slider: made, has, row: line(COPIES, job.id, h("code", {}, command(job)), made.element, has) };
        perJob.set(job.id, own);
        body.append(own.row);
      }
      say(own.has, job.limit ? `set to ${job.limit}` : "nothing of its own");
    }
    running.hidden = now.length === 0;
  };
  running.append(table("Copies that run", COPIES, body));
  const load = (): void => void attempt(async () => show(await get<Limits>("/v1/limits")));
  load();
  copies();
  const form = h(
    "form",
    { onsubmit: (event) => (event.preventDefault(), void set(text.value)) },
    field("In words", text, "A rate, a timetable, none, pause; auto is what the daemon was started with"),
    h("p", { class: "buttons" }, h("button", { type: "submit" }, "Set"), button("Pause all", () => set("pause")), button("As at the start", () => set("auto"))),
  );
  const told = (what: Told): void => (what === "limits" ? load() : copies());
  return { element: section("Limits", h("p", {}, h("strong", {}, "All copies together "), slider.element), from, may("admin") ? form : null, running), told };
}
