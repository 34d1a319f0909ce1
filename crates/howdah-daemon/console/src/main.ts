// The page of howdah daemon.

import { get, onRefused, post, Problem, setToken, token, type About } from "./api.ts";
import { button, element, field, fill, h, say } from "./dom.ts";
import { history } from "./history.ts";
import { now } from "./now.ts";
import { hosts, limits, schedules } from "./others.ts";
import { onTold, setAbout, start, stop } from "./store.ts";
import { submit } from "./submit.ts";
import type { View } from "./view.ts";

const VIEWS: [string, string, () => View][] = [
  ["now", "Now", now],
  ["history", "History", history],
  ["submit", "Submit", submit],
  ["schedules", "Schedules", schedules],
  ["hosts", "Machines", hosts],
  ["limits", "Limits", limits],
];

let view: View | null = null;

function show(made: View, title: string): void {
  view?.close?.();
  view = made;
  fill(element("main"), made.element);
  document.title = `${title} – howdah`;
}

function route(focus: boolean): void {
  if (token() === null) return login(null);
  const name = location.hash.slice(1);
  const [own, title, make] = VIEWS.find(([known]) => known === name) ?? (VIEWS[0] as (typeof VIEWS)[0]);
  for (const link of element("nav").querySelectorAll("a")) {
    if (link.hash === `#${own}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  show(make(), title);
  if (!focus) return;
  element("main").focus({ preventScroll: true });
  scrollTo(0, 0);
}

function login(why: string | null): void {
  stop();
  setToken(null);
  element("nav").replaceChildren();
  say(element("status"), "");
  const given = h("input", { type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const wrong = h("p", { class: "wrong", role: "alert" }, why ?? "");
  const form = h(
    "form",
    { class: "login", onsubmit: (event) => (event.preventDefault(), void enter(given.value.trim(), wrong)) },
    h("p", {}, "Who has a token of this daemon gets in. They are in the file 'tokens' of its directory; 'howdah daemon --open' brings one along."),
    field("Token", given),
    wrong,
    h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Log in")),
  );
  show({ element: h("section", { "aria-labelledby": "view-title" }, h("h2", { id: "view-title" }, "Log in"), form) }, "Log in");
  given.focus();
}

async function enter(text: string, wrong: HTMLElement): Promise<void> {
  setToken(text);
  try {
    setAbout(await get<About>("/v1/about"));
  } catch (error) {
    setToken(null);
    const known = document.body.contains(wrong) ? wrong : (document.querySelector(".wrong") as HTMLElement | null);
    if (known) say(known, error instanceof Problem && error.status === 401 ? "This is no token of this daemon." : String((error as Error).message));
    return;
  }
  begin();
}

function begin(): void {
  const links = VIEWS.map(([name, title]) => h("a", { href: `#${name}` }, title));
  fill(element("nav"), ...links, button("Log out", () => login(null)));
  void start();
  route(false);
}

async function main(): Promise<void> {
  onTold((told) => view?.told?.(told));
  onRefused(() => {
    if (view && element("nav").childElementCount > 0) login("The daemon does not take this token any more.");
  });
  window.addEventListener("hashchange", () => route(true));
  const ticket = /^#ticket=(\w+)$/.exec(location.hash)?.[1];
  if (ticket) {
    // It is good once only, so it may stand in a history.
    window.history.replaceState(null, "", "#now");
    try {
      const { token: own } = await post<{ token: string }>("/v1/tickets/use", { ticket });
      setToken(own);
    } catch (error) {
      return login(error instanceof Error ? error.message : null);
    }
  }
  if (token() === null) return login(null);
  try {
    setAbout(await get<About>("/v1/about"));
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return login("The daemon does not take this token any more.");
  }
  begin();
}

void main();
