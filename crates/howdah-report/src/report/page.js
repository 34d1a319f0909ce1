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

  // ---- charts ------------------------------------------------------------------------------------

  const fault = (error) => {
    root.dataset.error = String((error && error.message) || error);
    console.error(error);
  };
  // Of what draws, a warning is a mistake of ours, too; but panels with bars of their own are as we want them.
  console.warn = (...words) => {
    const text = words.join(" ");
    if (!text.includes("faceted independent scales")) fault(text);
  };
  const json = (element) => JSON.parse(element.textContent);

  // What draws is in the page, packed.
  const load = async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("vega").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    script.remove();
    return vegaEmbed;
  };

  const save = (name, type, parts) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts, { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  /** The data with a column for each field that has a name; one line for each of a list's values. */
  const csv = (spec) => {
    const rows = spec.data.values;
    const columns = spec.usermeta.columns.filter(([field]) => rows.some((row) => row[field] !== undefined));
    const quote = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const lines = [columns.map(([, name]) => quote(name || "name")).join(",")];
    for (const row of rows) {
      const lists = columns.map(([field]) => row[field]).filter(Array.isArray);
      const count = lists.length ? Math.max(...lists.map((list) => list.length)) : 1;
      for (let at = 0; at < count; at += 1) {
        lines.push(columns.map(([field]) => {
          const value = Array.isArray(row[field]) ? row[field][at] : row[field];
          return quote(String(value ?? ""));
        }).join(","));
      }
    }
    return `${lines.join("\r\n")}\r\n`;
  };

  /** A drawing alone has no page whose colours it could name. */
  const settled = (svg) => {
    const style = getComputedStyle(root);
    const probe = document.createElement("i");
    root.append(probe);
    const known = svg.replace(/var\((--\w+)\)/g, (whole, name) => {
      if (!style.getPropertyValue(name)) return whole;
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    });
    probe.remove();
    return known;
  };

  class Chart {
    constructor(figure, config) {
      this.figure = figure;
      this.place = figure.querySelector(".chart");
      this.spec = json(figure.querySelector("script"));
      this.config = config;
    }

    /** What depends on the room there is: panels beside each other, their width, names beside each other. */
    layout() {
      const room = this.place.clientWidth;
      const unit = this.spec.spec ?? this.spec;
      const values = this.spec.data.values;
      // What an axis takes beside a panel, and what stands at the end of a bar.
      const beside = values[0]?.end === undefined ? 80 : 190;
      const width = typeof unit.width === "number" ? Math.min(unit.width, Math.max(150, room - beside)) : unit.width;
      const column = typeof width === "number" ? width + beside : width.step * new Set(values.map((row) => row.c)).size + 110;
      return { width, columns: Math.max(1, Math.floor((room + 20) / column)), legend: Math.max(1, Math.floor(room / 190)) };
    }

    async draw(embed) {
      const layout = this.layout();
      this.shown = JSON.stringify(layout);
      const unit = { ...(this.spec.spec ?? this.spec), width: layout.width };
      const spec = this.spec.spec ? { ...this.spec, spec: unit, columns: layout.columns } : unit;
      const config = { ...this.config, background: null, legend: { ...this.config.legend, columns: layout.legend } };
      this.result?.finalize();
      this.result = await embed(this.place, spec, {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config, tooltip: { theme: "custom", offsetX: 12 },
      });
      const svg = this.place.querySelector("svg");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${this.figure.querySelector("h4").textContent}; the same as a table below`);
      if (!this.figure.querySelector(".tools")) this.tools();
    }

    async again(embed) {
      if (this.result && this.place.clientWidth && JSON.stringify(this.layout()) !== this.shown) await this.draw(embed);
    }

    tools() {
      const bar = document.createElement("p");
      bar.className = "tools";
      const name = this.figure.id;
      const button = (text, press) => {
        const made = document.createElement("button");
        made.type = "button";
        made.textContent = text;
        made.addEventListener("click", () => Promise.resolve(press()).catch(fault));
        bar.append(made);
      };
      button("Data (CSV)", () => save(`${name}.csv`, "text/csv", [csv(this.spec)]));
      button("SVG", async () => save(`${name}.svg`, "image/svg+xml", [settled(await this.result.view.toSVG())]));
      button("Vega-Lite", () => save(`${name}.vl.json`, "application/json", [JSON.stringify({ ...this.spec, config: this.config })]));
      if (JSON.stringify(this.spec).includes('"bind":"scales"')) {
        const hint = document.createElement("span");
        hint.textContent = "drag: move; shift and wheel: zoom; double click: as it was";
        bar.append(hint);
      }
      this.place.after(bar);
      this.figure.querySelector("details.data").open = false;
    }
  }

  const charts = async () => {
    const figures = [...document.querySelectorAll("figure:has(> .chart)")];
    if (!figures.length) return;
    const config = json(document.getElementById("config"));
    const all = new Map(figures.map((figure) => [figure, new Chart(figure, config)]));
    const embed = await load();
    const waiting = new Set(figures);
    const one = async (figure) => {
      if (!waiting.delete(figure)) return;
      try {
        await all.get(figure).draw(embed);
      } catch (error) {
        fault(error);
      }
    };
    // What is looked at comes first, one after the other; the rest when there is nothing else to do.
    let queue = Promise.resolve();
    const near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        queue = queue.then(() => one(target));
      }
    }, { rootMargin: "600px" });
    figures.forEach((figure) => near.observe(figure));
    const idle = window.requestIdleCallback ?? ((call) => setTimeout(call, 50));
    const rest = async () => {
      await queue;
      // In something folded there is no room yet: it is drawn when it is opened.
      const next = [...waiting].find((figure) => figure.querySelector(".chart").clientWidth > 0);
      if (next) {
        queue = queue.then(() => one(next));
        idle(rest, { timeout: 500 });
      } else {
        root.dataset.drawn = String(figures.length - waiting.size);
      }
    };
    idle(rest, { timeout: 500 });
    document.addEventListener("toggle", () => idle(rest, { timeout: 500 }), true);
    let soon;
    addEventListener("resize", () => {
      clearTimeout(soon);
      soon = setTimeout(() => {
        for (const chart of all.values()) queue = queue.then(() => chart.again(embed)).catch(fault);
      }, 200);
    });
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
    charts().catch(fault);
  });
  addEventListener("hashchange", reveal);
  addEventListener("error", (e) => { root.dataset.error = e.message; });
})();
