// Curves of a job over time. What they show is said in words beside them, for who does not see them.

import uPlot from "uplot";
import { h, say } from "./dom.ts";
import type { Row } from "./store.ts";
import { millis, percent, rate } from "./words.ts";

interface Curve { name: string; column: 1 | 2 | 3 | 4 | 5; show: (value: number) => string; colour: string; dash?: number[] }

// What a scale shows at the least: nothing must not look like much.
const CHARTS: { title: string; least: number; curves: Curve[] }[] = [
  {
    title: "Goodput",
    least: 1e5,
    curves: [
      { name: "content", column: 1, show: rate, colour: "--curve-1" },
      { name: "on the wire", column: 2, show: rate, colour: "--curve-2", dash: [4, 3] },
    ],
  },
  { title: "Loss", least: 0.001, curves: [{ name: "loss", column: 3, show: percent, colour: "--curve-3" }] },
  { title: "Round trip", least: 1e-4, curves: [{ name: "round trip", column: 4, show: (s) => millis(s * 1e6), colour: "--curve-4" }] },
  { title: "Queue", least: 1e-4, curves: [{ name: "queue", column: 5, show: (s) => millis(s * 1e6), colour: "--curve-5" }] },
];

const minutes = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

// Without the day, which would take a second line.
function clock(time: number, all: number[]): string {
  const exact = all.some((one) => one % 60 !== 0);
  return (exact ? seconds : minutes).format(time * 1000);
}

const WIDTH = 280;
const HEIGHT = 150;

export class Charts {
  readonly element = h("div", { class: "charts" });
  private readonly plots: { plot: uPlot; curves: Curve[]; words: HTMLElement; holder: HTMLElement }[] = [];
  private readonly resized: ResizeObserver;

  constructor() {
    // Asked for whenever it is drawn: light may become dark.
    const own = (): CSSStyleDeclaration => getComputedStyle(this.element);
    const text = (): string => own().color;
    const line = (): string => own().borderTopColor;
    const fixed = getComputedStyle(document.documentElement);
    const colour = (name: string): string => fixed.getPropertyValue(name).trim();
    for (const { title, least, curves } of CHARTS) {
      const words = h("span", {});
      const holder = h("div", { "aria-hidden": "true" });
      this.element.append(h("figure", {}, h("figcaption", {}, h("strong", {}, title), " ", words), holder));
      const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const first = curves[0] as Curve;
      const plot = new uPlot(
        {
          width: WIDTH,
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: false },
          scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, least)] } },
          axes: [
            { ...axis, size: 26, space: 80, values: (_, splits) => splits.map((seconds) => clock(seconds, splits)) },
            { ...axis, size: 74, space: 30, values: (_, splits) => splits.map((value) => first.show(value)) },
          ],
          series: [
            {},
            ...curves.map((curve) => ({ stroke: colour(curve.colour), width: 1.5, points: { show: false }, ...(curve.dash ? { dash: curve.dash } : {}) })),
          ],
        },
        [[], ...curves.map(() => [])],
        holder,
      );
      this.plots.push({ plot, curves, words, holder });
    }
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(this.element);
  }

  private fit(): void {
    for (const { plot, holder } of this.plots) {
      const width = Math.floor(holder.clientWidth);
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  }

  show(rows: Row[]): void {
    const times = rows.map((row) => row[0]);
    for (const { plot, curves, words } of this.plots) {
      plot.setData([times, ...curves.map((curve) => rows.map((row) => row[curve.column]))]);
      const [first, second] = curves as [Curve, Curve | undefined];
      const values = rows.map((row) => row[first.column]);
      const last = values.at(-1);
      const wire = rows.at(-1)?.[2] ?? 0;
      const most = values.reduce((a, b) => Math.max(a, b), 0);
      const beside = second ? `; ${second.name} ${second.show(wire)} (dashed)` : "";
      say(words, last === undefined ? "nothing measured yet" : `now ${first.show(last)}, at most ${first.show(most)}${beside}`);
    }
  }

  close(): void {
    this.resized.disconnect();
    for (const { plot } of this.plots) plot.destroy();
  }
}
