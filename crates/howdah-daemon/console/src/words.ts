// Figures and jobs in words.

import type { About, Job, Progress } from "./api.ts";

const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

export function rate(bps: number): string {
  for (const [unit, size] of [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]] as const) {
    if (bps >= size) return `${number(bps / size)} ${unit}`;
  }
  return `${Math.round(bps)} bit/s`;
}

export function bytes(count: number): string {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
    if (count >= size) return `${number(count / size)} ${unit}`;
  }
  return `${count} bytes`;
}

export function percent(share: number): string {
  return share === 0 ? "0 %" : share < 0.0001 ? "< 0.01 %" : `${(share * 100).toFixed(2)} %`;
}

export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function millis(us: number): string {
  return us < 1000 ? `${Math.round(us)} µs` : `${number(us / 1000)} ms`;
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

export function time(ms: number): string {
  return clock.format(ms);
}

// A word as a shell would need it.
export function quoted(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function command(job: { spec: { kind: string; arguments: string[] } }): string {
  return [job.spec.kind.replace("_", " "), ...job.spec.arguments.map(quoted)].join(" ");
}

// What quoted() made, and what people write.
export function words(text: string): string[] {
  const found: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const c = text.charAt(at);
    if (quote === "'" ? c === "'" : quote === '"' && c === '"') quote = "";
    else if (quote === "'") word += c;
    else if (c === "\\" && at + 1 < text.length) word = (word ?? "") + text.charAt(++at);
    else if (quote === '"') word += c;
    else if (c === "'" || c === '"') [quote, word] = [c, word ?? ""];
    else if (/\s/.test(c)) {
      if (word !== null) found.push(word);
      word = null;
    } else word = (word ?? "") + c;
  }
  if (quote) throw new Error(`a ${quote} has no end`);
  if (word !== null) found.push(word);
  return found;
}

export const isPaused = (progress: Progress): boolean => progress.paused || progress.limit_bps === 0;

// What a job waits for, or what keeps it from being faster.
export function heldUp(job: Job, progress: Progress | undefined, jobs: Iterable<Job>, about: About | null): string {
  const now = Date.now();
  const running = [...jobs].filter((other) => other.state === "running");
  if (job.cancelling) return "it is being cancelled";
  if (job.state === "held") return "held until somebody releases it";
  if (job.state === "waiting") {
    const again = job.not_before_ms;
    if (again && again > now) return `tries again ${time(again)}${job.reason ? `: ${job.reason}` : ""}`;
    const before = job.spec.after?.filter((id) => [...jobs].some((other) => other.id === id && other.id !== job.id)) ?? [];
    if (before.length > 0) return `waits for job ${before.join(", ")}`;
    if (about && running.length >= about.max_running) return `waits for its turn: ${running.length} jobs run, which is as many as may (--max-running)`;
    const host = job.hosts.find((name) => running.some((other) => other.hosts.includes(name)));
    return host ? `waits for its turn with ${host}` : "begins soon";
  }
  if (job.state !== "running") return job.reason ?? "";
  if (!progress) return "begins";
  if (isPaused(progress)) return "paused, by a limit of nothing";
  if (job.reason) return job.reason;
  if (progress.limit_bps !== null && progress.wire_bps >= 0.85 * progress.limit_bps) return `its limit, ${rate(progress.limit_bps)}`;
  if (progress.goodput_bps === 0) return "nothing comes through just now";
  if (progress.pacing_bps > 0 && progress.wire_bps < 0.6 * progress.pacing_bps)
    return "a disk or a processor of one end, rather than the network";
  return "the network: what the path carries";
}

// How a job that is over ended, with the words of its command and whether trying again may help.
export function ending(job: Job): string {
  const error = job.last?.error;
  const said = error?.message ?? job.reason ?? "";
  if (!error) return said;
  const code = `exit code ${error.exit_code}`;
  return `${said} (${code}; ${error.retry_may_help ? "trying again may help" : "trying again does not help"})`;
}
