// Elements. Text is always text: nothing here, or anywhere in this page, makes markup out of strings.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => unknown)>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

export function put(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent: HTMLElement, ...children: Child[]): void {
  parent.replaceChildren();
  put(parent, children);
}

// Only what is new is touched: focus and selections stay.
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

// Roles are said: on narrow screens rows are no rows for the browser any more.
export function table(caption: string, heads: string[], body: HTMLElement, quiet = false): HTMLElement {
  body.setAttribute("role", "rowgroup");
  const head = h("tr", { role: "row" }, ...heads.map((name) => h("th", { scope: "col", role: "columnheader" }, name)));
  return h(
    "div",
    { class: "table" },
    h("table", { role: "table" }, h("caption", { class: quiet ? "hidden" : "" }, caption), h("thead", { role: "rowgroup" }, head), body),
  );
}

export function line(heads: string[], ...cells: Child[]): HTMLTableRowElement {
  return h("tr", { role: "row" }, ...cells.map((cell, at) => h("td", { role: "cell", "data-head": heads[at] }, cell)));
}

let named = 0;

// A control with its label, and perhaps a word about it.
export function field(label: string, control: HTMLElement, hint?: string): HTMLElement {
  const id = `field-${++named}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null,
  );
}

export function button(text: string, act: () => unknown, attributes: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", ...attributes, onclick: act }, text);
}

export function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no #${id}`);
  return found;
}

// Something went wrong, in the words of whoever said so.
export function alarm(text: string): void {
  const alerts = element("alerts");
  const line = h("p", {}, text, " ");
  line.appendChild(button("Dismiss", () => line.remove(), { "aria-label": `Dismiss: ${text}` }));
  alerts.appendChild(line);
  line.scrollIntoView({ block: "nearest" });
  while (alerts.childElementCount > 5) alerts.firstElementChild?.remove();
}

export function news(text: string): void {
  say(element("news"), text);
}

// Does it, and says what went wrong.
export async function attempt(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    alarm(error instanceof Error ? error.message : String(error));
  }
}
