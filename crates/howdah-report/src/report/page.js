"use strict";
(() => {
  const root = document.documentElement;
  const store = {
    get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
    set: (name) => { try { localStorage.setItem("theme", name); } catch { /* a local file may keep nothing */ } },
  };
  const use = (name) => {
    if (name) root.dataset.theme = name; else delete root.dataset.theme;
    document.querySelectorAll("[data-set]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.set === name)));
  };
  const wanted = /theme=(light|dark)/.exec(location.hash);
  use((wanted && wanted[1]) || store.get() || "");

  // A link into something folded opens it.
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    const inner = target.querySelector(":scope > details");
    if (inner) inner.open = true;
    target.scrollIntoView();
  };

  // A box above each long table that leaves the rows with all of its words.
  const filter = (box) => {
    const input = document.createElement("input");
    const rows = [...box.querySelectorAll("tbody tr")];
    const count = document.createElement("span");
    input.type = "search";
    input.placeholder = "only rows with \u2026";
    input.setAttribute("aria-label", "filter the table's rows");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) shown += 1;
      }
      count.textContent = words.length ? ` ${shown} of ${rows.length}` : "";
    });
    const bar = document.createElement("p");
    bar.className = "filter";
    bar.append(input, count);
    box.before(bar);
  };

  document.addEventListener("DOMContentLoaded", () => {
    use(root.dataset.theme || "");
    document.querySelectorAll("[data-set]").forEach((b) => b.addEventListener("click", () => {
      use(b.dataset.set);
      store.set(b.dataset.set);
    }));
    document.querySelectorAll(".scroll.long").forEach(filter);
    document.querySelectorAll("[data-subjects]").forEach((choice) => choice.addEventListener("change", () => {
      document.querySelectorAll("[data-subject]").forEach((part) => { part.hidden = part.dataset.subject !== choice.value; });
    }));
    const contents = document.querySelector("nav details");
    if (matchMedia("(max-width: 60rem)").matches) contents.open = false;
    reveal();
    root.dataset.ready = "yes";
  });
  addEventListener("hashchange", reveal);
  addEventListener("error", (e) => { root.dataset.error = e.message; });
})();
