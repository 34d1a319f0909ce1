// The daemon, as docs/howdah-daemon.openapi.json describes it.
//
// The token is in the storage of this tab: it is gone with the tab, and no other page and no other port of this machine is ever
// sent it, as a cookie would be. Nothing is done by being somewhere: each request carries the token itself.

export type State = "waiting" | "held" | "running" | "done" | "failed" | "cancelled";
export interface Spec {
  kind: "cp" | "sync" | "verify" | "lab_run";
  arguments: string[];
  directory: string;
  labels?: string[];
  priority?: number;
  retries?: number;
  after?: number[];
  deadline_ms?: number;
  by_ms?: number;
  hold?: boolean;
}
export interface Ended { code?: number; signal?: number; cannot_start?: string }
export interface Attempt { number: number; pid: number | null; started_ms: number; ended_ms: number | null; ended: Ended | string | null }
export interface Happened { time_ms: number; what: string; why: string | null }
export interface Job {
  id: number;
  spec: Spec;
  hosts: string[];
  state: State;
  reason: string | null;
  exit_code: number | null;
  not_before_ms: number | null;
  cancelling: boolean;
  submitted_ms: number;
  ended_ms: number | null;
  attempts: Attempt[];
  history: Happened[];
  limit: string | null;
  last: Said | null;
}
// An event of docs/json.md.
export interface Said {
  event: string;
  time_utc?: string;
  message?: string;
  error?: { kind: string; message: string; exit_code: number; retry_may_help: boolean };
  [name: string]: unknown;
}
export interface Progress extends Said {
  elapsed_seconds: number;
  bytes: number;
  total_bytes: number | null;
  files_done: number | null;
  files_total: number | null;
  goodput_bps: number;
  wire_bps: number;
  loss_rate: number;
  rtt_us: number;
  queue_us: number;
  pacing_bps: number;
  limit_bps: number | null;
  paused: boolean;
  eta_seconds: number | null;
}
export interface About {
  version: string;
  role: "read" | "submit" | "admin";
  started_ms: number;
  now_ms: number;
  home: string;
  allow: string[];
  max_running: number;
  max_per_host: number;
}
export interface Limits {
  limit: string | null;
  set: boolean;
  allowed_bps: number | null;
  running: { job: number; pace: { share_bps: number | null; goodput_bps: number; wire_bps: number } }[];
}
export interface HostView {
  name: string;
  set: { limit: string | null; max_running: number | null };
  allowed_bps: number | null;
  running: number;
  waiting: number;
  jobs: number;
  last_job: number | null;
  facts: {
    keys: string[];
    path: { address: string; capacity_bps: number; rtt_seconds: number; loss: number; age_seconds: number } | null;
  };
}
export interface Schedule {
  id: number;
  spec: { cron: string; zone: string; missed: string; overlap: string; job: Spec };
  paused: boolean;
  next_ms: number | null;
  last_job: number | null;
  note: string | null;
}
export interface Watch {
  id: number;
  spec: { path: string; quiet_seconds: number; job: Spec };
  paused: boolean;
  last_job: number | null;
  note: string | null;
}
export interface Directory {
  path: string;
  parent: string | null;
  names: { name: string; is_text: boolean; kind: string; bytes: number }[];
  more: boolean;
}
export interface Output { attempt: number; events: Said[]; next_offset: number; complete: boolean }

export class Problem extends Error {
  constructor(readonly status: number, readonly kind: string, message: string) {
    super(message);
  }
}

const TOKEN = "howdah-token";
let refused: () => void = () => {};

export function token(): string | null {
  return sessionStorage.getItem(TOKEN);
}

export function setToken(text: string | null): void {
  if (text === null) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, text);
}

// Called whenever the token is not taken.
export function onRefused(act: () => void): void {
  refused = act;
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  const own = token();
  if (own) headers["Authorization"] = `Bearer ${own}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "network", "no daemon answers; 'howdah daemon' starts one");
  }
  if (response.ok) return response;
  const told: { error?: { kind: string; message: string } } = await response.json().catch(() => ({}));
  if (response.status === 401) refused();
  throw new Problem(response.status, told.error?.kind ?? "io", told.error?.message ?? `the daemon answers ${response.status}`);
}

export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await send(method, path, body);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

export const get = <T>(path: string): Promise<T> => ask<T>("GET", path);
export const post = <T>(path: string, body?: unknown): Promise<T> => ask<T>("POST", path, body);

// Server-sent events, with the token in a header, which EventSource cannot do. Returns when the stream ends.
export async function follow(
  path: string,
  told: (event: string, data: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await send("GET", path, undefined, signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      let event = "message";
      const data: string[] = [];
      for (const line of part.split("\n")) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
      }
      if (data.length > 0) told(event, JSON.parse(data.join("\n")));
    }
  }
}
