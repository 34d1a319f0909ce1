// A job is put together, tried dry, and submitted.

import { get, post, type Directory, type HostView, type Job, type Output, type Said, type Spec } from "./api.ts";
import { alarm, attempt, button, field, fill, h, news, put, say } from "./dom.ts";
import { dialog, takePrefilled } from "./job.ts";
import { about, jobs, may, type Told } from "./store.ts";
import type { View } from "./view.ts";
import { bytes, command, ending, quoted, words } from "./words.ts";

type Kind = "cp" | "sync" | "verify";

// Options with what they mean: for which commands, and whether a word follows.
const OPTIONS: { flag: string; means: string; for: Kind[]; value?: string }[] = [
  { flag: "--recursive", means: "Directories with all that is in them", for: ["cp"] },
  { flag: "--archive", means: "Directories, links, modes, times and owners as they are", for: ["cp"] },
  { flag: "--delete", means: "Delete at the destination what the source does not have", for: ["sync"] },
  { flag: "--checksum", means: "Compare contents, not size and time", for: ["cp", "sync"] },
  { flag: "--update", means: "Leave what is newer at the destination alone", for: ["cp", "sync"] },
  { flag: "--accept-new", means: "Trust a machine that is not known yet, by the key that it shows", for: ["cp", "sync", "verify"] },
  { flag: "--exclude", means: "Leave out names that match", for: ["cp", "sync"], value: "*.tmp" },
  { flag: "--limit", means: "At most so much of the network", for: ["cp", "sync"], value: "500mbit" },
  { flag: "--policy", means: "fair, or background: behind everybody else", for: ["cp", "sync"], value: "background" },
];
const DRY = "dry-run";

// Names below a directory, as a tree.
interface Branch { changes: Said[]; below: Map<string, Branch>; count: number }

export function tree(changes: Said[]): Branch {
  const root: Branch = { changes: [], below: new Map(), count: 0 };
  for (const change of changes) {
    const parts = String(change["path"]).split("/");
    parts.pop();
    let at = root;
    at.count += 1;
    for (const part of parts) {
      let next = at.below.get(part);
      if (!next) at.below.set(part, (next = { changes: [], below: new Map(), count: 0 }));
      next.count += 1;
      at = next;
    }
    at.changes.push(change);
  }
  return root;
}

function branch(of: Branch, depth: number): HTMLElement {
  const list = h("ul", { class: "tree" });
  for (const change of of.changes) {
    const name = String(change["path"]).split("/").at(-1) ?? "";
    const reasons = Array.isArray(change["reasons"]) ? (change["reasons"] as string[]).join(", ") : "";
    list.append(h("li", { "data-what": String(change["what"]) }, h("b", {}, String(change["what"])), ` ${name}`, reasons ? h("small", {}, ` ${reasons}`) : null));
  }
  for (const [name, below] of of.below) {
    const inner = h("details", { open: depth < 1 }, h("summary", {}, `${name}/ (${below.count})`));
    // What is closed is not made before it is opened.
    const make = (): void => void (inner.open && inner.childElementCount === 1 && inner.append(branch(below, depth + 1)));
    inner.addEventListener("toggle", make);
    make();
    list.append(h("li", {}, inner));
  }
  return list;
}

// What names the machine of a place, if that is another one, and its path there.
export function machine(place: string): [string, string] | null {
  const found = /^((?:howdah|ssh):\/\/[^/]+\/|(?![./~])[^/:]+:(?!\/\/))(.*)$/.exec(place);
  return found ? [found[1] ?? "", found[2] ?? ""] : null;
}

// The first of the places that were typed.
function first(text: string): string {
  try {
    return words(text)[0] ?? "";
  } catch {
    return "";
  }
}

// Chooses a file or directory of the daemon's machine, or of the one that the place names.
function browse(input: string, chosen: (path: string) => void): void {
  const far = machine(input);
  const start = far ? far[1] : input.startsWith("/") ? input : "";
  const here = h("p", {}, h("code", {}));
  const list = h("ul", { class: "browse" });
  const own = dialog(far ? `Choose on ${far[0]}` : "Choose on the daemon's machine", here, list);
  const choose = (path: string): void => {
    chosen((far?.[0] ?? "") + path);
    own.close();
  };
  const look = async (path: string | null): Promise<Directory> => {
    if (!far) return get<Directory>(`/v1/files${path ? `?path=${encodeURIComponent(path)}` : ""}`);
    fill(here, "Looking there…");
    const found = await get<Directory>(`/v1/remote?place=${encodeURIComponent(far[0] + (path ?? ""))}`);
    const at = (path ?? "").replace(/\/+$/, "") || ((path ?? "").startsWith("/") ? "/" : "");
    // What lies above where one begins is the home of the user there, or the server's root.
    const above = at === "/" || at === "" ? null : at.replace(/\/?[^/]*$/, "") || (at.startsWith("/") ? "/" : "");
    return { ...found, path: at, parent: above };
  };
  const go = (path: string | null): void =>
    void attempt(async () => {
      const found = await look(path);
      const place = (name: string): string => (found.path === "" || found.path === "/" ? found.path : `${found.path}/`) + name;
      fill(here, "In ", h("code", {}, (far?.[0] ?? "") + found.path), " ", button("Choose this directory", () => choose(found.path)));
      fill(list);
      if (found.parent !== null) list.append(h("li", {}, button("..", () => go(found.parent), { "aria-label": "The directory above" })));
      for (const { name, is_text, kind, bytes: size } of found.names) {
        if (!is_text) list.append(h("li", {}, `${name} (no text: a job cannot name it)`));
        else if (kind === "directory") list.append(h("li", {}, button(`${name}/`, () => go(place(name)))));
        else list.append(h("li", {}, button(name, () => choose(place(name))), ` ${kind === "file" ? bytes(size) : kind}`));
      }
      if (found.more) list.append(h("li", {}, "and more, which can be typed"));
      list.querySelector("button")?.focus();
    });
  go(start || null);
}

export function submit(): View {
  const text = (placeholder = "", value = ""): HTMLInputElement =>
    h("input", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder, value });
  const kind = h("select", {}, ...["cp", "sync", "verify"].map((name) => h("option", {}, name)));
  const from = text("/data/run7");
  const to = text("site:store/");
  const more = text();
  const labels = text("night");
  const directory = text("", about?.allow[0] ?? about?.home ?? "/");
  const priority = h("input", { type: "number", value: 0 });
  const retries = h("input", { type: "number", min: 0, max: 1000, value: 3 });
  const hold = h("input", { type: "checkbox" });
  const hosts = h("datalist", { id: "known-hosts" });
  for (const input of [from, to]) input.setAttribute("list", "known-hosts");
  const options = h("fieldset", {}, h("legend", {}, "Options"));
  const chosen = new Map<string, { on: HTMLInputElement; value: HTMLInputElement | null; row: HTMLElement }>();
  for (const { flag, means, value } of OPTIONS) {
    const on = h("input", { type: "checkbox", name: flag });
    const word = value === undefined ? null : h("input", { type: "text", autocomplete: "off", placeholder: value, "aria-label": `Value of ${flag}` });
    word?.addEventListener("input", () => void (on.checked = word.value !== ""));
    const row = h("div", { class: "option" }, h("label", {}, on, " ", h("code", {}, flag), ` ${means}`), word);
    chosen.set(flag, { on, value: word, row });
    options.append(row);
  }
  const fits = (): void => {
    for (const { flag, for: commands } of OPTIONS) {
      const option = chosen.get(flag);
      if (option) option.row.hidden = !commands.includes(kind.value as Kind);
    }
    dry.hidden = kind.value === "verify";
  };

  const spec = (): Spec => {
    const given: string[] = [];
    for (const [flag, { on, value, row }] of chosen) {
      if (!on.checked || row.hidden) continue;
      given.push(flag);
      if (value) given.push(value.value);
    }
    // What begins with a dash is a name all the same.
    const places = [...words(from.value), to.value];
    return {
      kind: kind.value as Kind,
      arguments: [...given, ...words(more.value), ...(places.some((word) => word.startsWith("-")) ? ["--"] : []), ...places],
      directory: directory.value,
      labels: labels.value.split(/[\s,]+/).filter(Boolean),
      priority: Number(priority.value),
      retries: Number(retries.value),
      hold: hold.checked,
    };
  };

  const result = h("div", { class: "result" });
  let trying: number | null = null;
  const forget = (): void => {
    trying = null;
    result.replaceChildren();
  };
  const go = (wanted: Spec): Promise<void> =>
    attempt(async () => {
      const { id } = await post<{ id: number }>("/v1/jobs", wanted);
      news(`Job ${id} was submitted`);
      location.hash = "#now";
    });
  const tryDry = (): Promise<void> =>
    attempt(async () => {
      const wanted = spec();
      const test: Spec = { ...wanted, arguments: ["--dry-run", ...wanted.arguments], labels: [DRY], retries: 0, hold: false, priority: 1000 };
      const { id } = await post<{ id: number }>("/v1/jobs", test);
      fill(result, h("p", { role: "status" }, `Dry run, as job ${id}: ${command({ spec: test })}`));
      trying = id;
      const job = await get<Job>(`/v1/jobs/${id}?wait_seconds=600`);
      if (trying !== id) return;
      await showDry(job, wanted);
    });
  const showDry = async (job: Job, wanted: Spec): Promise<void> => {
    if (job.state !== "done") {
      fill(result, h("p", { role: "status" }, `The dry run ${job.state}: ${ending(job)}`));
      if (job.state === "failed") alarm(ending(job));
      return;
    }
    const page = await get<Output>(`/v1/jobs/${job.id}/output?event=change&limit=5000`);
    const changes = page.events;
    const all = page.complete;
    const counts = new Map<string, number>();
    for (const change of changes) counts.set(String(change["what"]), (counts.get(String(change["what"])) ?? 0) + 1);
    const sums = [...counts].map(([what, count]) => `${count} × ${what}`).join(", ");
    fill(
      result,
      h("h3", { tabindex: -1, id: "would" }, "What would be done"),
      h("p", { role: "status" }, changes.length === 0 ? "Nothing: the destination has it all." : `${sums}${all ? "" : ", and more"}`),
      branch(tree(changes), 0),
      h("p", { class: "buttons" }, button("Go: do that", () => go(wanted), { class: "main" }), button("Not that", forget)),
    );
    document.getElementById("would")?.focus();
  };

  const dry = button("Dry run", tryDry);
  const preview = h("code", {});
  const form = h(
    "form",
    { onsubmit: (event) => (event.preventDefault(), void attempt(async () => go(spec()))) },
    field("Command", kind, "cp copies; sync makes the destination like the source; verify compares and changes nothing"),
    h("div", { class: "with-button" }, field("From", from, "A path of the daemon's machine, or machine:path"), button("Browse…", () => browse(first(from.value), (path) => void (from.value = quoted(path), shown())), { "aria-label": "Browse for the source" })),
    h("div", { class: "with-button" }, field("To", to, "machine:path, or a path of the daemon's machine"), button("Browse…", () => browse(to.value, (path) => void (to.value = path, shown())), { "aria-label": "Browse for the destination" })),
    hosts,
    options,
    h("details", {}, h("summary", {}, "More"), field("More options", more, "As on the command line (howdah cp --help)"), field("Directory", directory, "What relative paths are relative to"), field("Labels", labels), field("Priority", priority, "Higher ones go first"), field("Retries", retries), h("label", {}, hold, " Hold it until it is released")),
    h("p", { class: "preview" }, preview),
    h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Submit"), dry),
  );
  const shown = (): void => {
    fits();
    try {
      say(preview, from.value && to.value ? `howdah ${command({ spec: spec() })}` : "");
    } catch {
      say(preview, "");
    }
  };
  form.addEventListener("input", shown);
  const given = takePrefilled();
  if (given) fillIn(given);
  shown();
  void get<{ hosts: HostView[] }>("/v1/hosts").then(({ hosts: found }) => put(hosts, found.map((host) => h("option", { value: `${host.name}:` })))).catch(() => {});

  // Of an earlier job: what is no option of this page stands among the others as it was.
  function fillIn(of: Spec): void {
    kind.value = ["cp", "sync", "verify"].includes(of.kind) ? of.kind : "cp";
    const rest = of.arguments.filter((word) => word !== "--dry-run");
    const others: string[] = [];
    while (rest.length > 2) {
      const word = rest.shift() ?? "";
      const option = chosen.get(word);
      if (!option) others.push(word);
      else if (option.on.checked) others.push(word, ...(option.value ? [rest.shift() ?? ""] : []));
      else {
        option.on.checked = true;
        if (option.value) option.value.value = rest.shift() ?? "";
      }
    }
    more.value = others.filter((word) => word !== "--").map(quoted).join(" ");
    from.value = quoted(rest[0] ?? "");
    to.value = rest[1] ?? "";
    directory.value = of.directory;
    labels.value = (of.labels ?? []).filter((label) => label !== DRY).join(" ");
    priority.value = String(of.priority ?? 0);
    retries.value = String(of.retries ?? 3);
  }

  const told = (what: Told): void => {
    if (typeof what !== "number" || what !== trying) return;
    const job = jobs.get(what);
    if (job?.state === "waiting" || job?.state === "running") say(result.firstElementChild as HTMLElement, `Dry run, as job ${what}: ${job.state}`);
  };
  const element = h(
    "section",
    { "aria-labelledby": "view-title" },
    h("h2", { id: "view-title" }, "Submit a job"),
    may("submit") ? form : h("p", {}, "Your token may only look. One of 'submit' or 'admin' may submit jobs."),
    result,
  );
  return { element, told };
}
