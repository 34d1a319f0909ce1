// What is known of the daemon, kept up to date by its stream of events.

import { follow, get, Problem, token, type About, type Job, type Output, type Progress, type Said } from "./api.ts";
import { alarm, element, news, say } from "./dom.ts";

// A figure for each second, the oldest first: seconds since 1970, goodput, wire (bit/s), loss (a share), RTT, queue (seconds).
export type Row = [time: number, goodput: number, wire: number, loss: number, rtt: number, queue: number];
const MOST_ROWS = 7_200;

// Jobs that are not over, and those that ended while somebody looked.
export const jobs = new Map<number, Job>();
export const progress = new Map<number, Progress>();
export const series = new Map<number, Row[]>();
// What processes said last that have ended: why a job failed, in the words of its command.
const last = new Map<number, Said | null>();
export let about: About | null = null;

// What a view wants to hear: a number is a job of which something is new.
export type Told = number | "all" | "limits";
let hear: (told: Told) => void = () => {};

// Many that come at once are told together.
export function onTold(act: (told: Told) => void): void {
  const waiting = new Set<Told>();
  let timer = 0;
  const tell = (): void => {
    timer = 0;
    const told: Told[] = waiting.size > 20 || waiting.has("all") ? ["all", ...(waiting.has("limits") ? (["limits"] as const) : [])] : [...waiting];
    waiting.clear();
    for (const one of told) act(one);
  };
  hear = (told) => {
    waiting.add(told);
    timer ||= window.setTimeout(tell, 50);
  };
}

export function may(role: "submit" | "admin"): boolean {
  return about?.role === "admin" || about?.role === role;
}

export function setAbout(found: About): void {
  about = found;
}

const isOver = (job: Job): boolean => ["done", "failed", "cancelled"].includes(job.state);

function note(id: number, event: Progress): void {
  progress.set(id, event);
  const time = event.time_utc ? Date.parse(event.time_utc) / 1000 : Date.now() / 1000;
  const rows = series.get(id) ?? [];
  series.set(id, rows);
  const last = rows.at(-1);
  if (last && last[0] >= time) return;
  rows.push([time, event.goodput_bps, event.wire_bps, event.loss_rate, event.rtt_us / 1e6, event.queue_us / 1e6]);
  if (rows.length > MOST_ROWS) rows.splice(0, rows.length - MOST_ROWS);
}

// What a job said before somebody looked, for its curves.
export async function loadSeries(id: number): Promise<void> {
  const found: Row[] = [];
  let offset = 0;
  for (let page = 0; page < 4; page++) {
    const part = await get<Output>(`/v1/jobs/${id}/output?event=progress&limit=5000&offset=${offset}`);
    for (const event of part.events as Progress[]) {
      const time = Date.parse(event.time_utc ?? "") / 1000;
      found.push([time, event.goodput_bps, event.wire_bps, event.loss_rate, event.rtt_us / 1e6, event.queue_us / 1e6]);
    }
    if (part.next_offset === offset) break;
    offset = part.next_offset;
  }
  const newest = found.at(-1)?.[0] ?? 0;
  const rows = [...found, ...(series.get(id) ?? []).filter((row) => row[0] > newest)];
  series.set(id, rows.slice(-MOST_ROWS));
}

async function loadJobs(): Promise<void> {
  // What runs is in sight however many newer ones wait.
  const pages = ["running", "waiting,held"].map((states) => get<{ jobs: Job[] }>(`/v1/jobs?state=${states}&limit=1000`));
  const found = (await Promise.all(pages)).flatMap((page) => page.jobs);
  const before = [...jobs.values()].filter((job) => !isOver(job)).map((job) => job.id);
  for (const id of before) jobs.delete(id);
  for (const job of found) jobs.set(job.id, job);
  // What ended while nobody could be asked stays in sight.
  const gone = before.filter((id) => !jobs.has(id)).slice(-20);
  for (const job of await Promise.all(gone.map((id) => get<Job>(`/v1/jobs/${id}`)))) jobs.set(job.id, job);
  forget();
  hear("all");
}

function told(event: string, data: unknown): void {
  if (event === "job") {
    const job = data as Job;
    job.last = last.get(job.id) ?? null;
    const before = jobs.get(job.id);
    jobs.set(job.id, job);
    if (before && before.state !== job.state) news(`Job ${job.id} is ${job.state}`);
    if (isOver(job)) {
      progress.delete(job.id);
      forget();
    }
    hear(job.id);
  } else if (event === "progress") {
    const { job, event: said } = data as { job: number; event: Said };
    note(job, said as Progress);
    hear(job);
  } else if (event === "ended") {
    const { job, last: said } = data as { job: number; last: Said | null };
    last.set(job, said);
  } else if (event === "jobs") void loadJobs().catch(() => {});
  else if (event === "limits") hear("limits");
  else if (event === "dropped") alarm((data as { message: string }).message);
}

// Of what is over the newest are kept in sight.
function forget(): void {
  const over = [...jobs.values()].filter(isOver);
  over.sort((a, b) => (b.ended_ms ?? 0) - (a.ended_ms ?? 0));
  for (const job of over.slice(20)) {
    jobs.delete(job.id);
    series.delete(job.id);
    last.delete(job.id);
  }
}

let running: AbortController | null = null;

export function stop(): void {
  running?.abort();
  running = null;
}

// Follows the daemon for as long as there is a token, through its restarts.
export async function start(): Promise<void> {
  stop();
  const own = new AbortController();
  running = own;
  let tries = 0;
  let started = about?.started_ms ?? 0;
  const connected = (found: About): void => {
    const isNew = started !== 0 && started !== found.started_ms;
    const text = isNew ? "Connected again: the daemon was restarted; jobs went on" : tries > 0 ? "Connected again" : "Connected";
    [about, started, tries] = [found, found.started_ms, 0];
    document.body.dataset["connected"] = "yes";
    say(element("status"), text);
    void loadJobs().catch(() => {});
  };
  while (!own.signal.aborted && token() !== null) {
    try {
      await follow("/v1/events", (event, data) => (event === "hello" ? connected(data as About) : told(event, data)), own.signal);
    } catch (error) {
      if (own.signal.aborted) return;
      if (error instanceof Problem && error.status === 401) return;
    }
    if (own.signal.aborted) return;
    tries += 1;
    const wait = Math.min(2 ** (tries - 1), 10);
    document.body.dataset["connected"] = "no";
    say(element("status"), `The daemon does not answer; jobs go on without it. Trying again every ${wait} s`);
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}
