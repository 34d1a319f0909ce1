// A limit that acts at once: a slider for the hand, and words for the exact.

import { h, say } from "./dom.ts";
import { rate } from "./words.ts";

const LEAST = 64e3;
const MOST = 100e9;
const STEPS = 300;

const at = (step: number): number => {
  const exact = LEAST * (MOST / LEAST) ** (step / STEPS);
  // Two digits are enough.
  const size = 10 ** Math.floor(Math.log10(exact) - 1);
  return Math.round(exact / size) * size;
};

const step = (bps: number): number => Math.round((STEPS * Math.log(bps / LEAST)) / Math.log(MOST / LEAST));

// In words of the command line.
const limit = (bps: number): string =>
  bps % 1e9 === 0 ? `${bps / 1e9}gbit` : bps % 1e6 === 0 ? `${bps / 1e6}mbit` : `${Math.round(bps / 1e3)}kbit`;

export class Slider {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly words: HTMLElement;
  private timer = 0;
  private touched = 0;

  // `act` is given what the slider says, in words of the command line, a moment after it was moved.
  constructor(label: string, private readonly act: (limit: string) => void, enabled: boolean) {
    this.slider = h("input", {
      type: "range", min: 0, max: STEPS + 1, value: STEPS + 1, "aria-label": label, disabled: !enabled,
      oninput: () => this.moved(),
    });
    this.words = h("output", {}, "no limit");
    this.element = h("span", { class: "slider" }, this.slider, this.words);
  }

  private moved(): void {
    const value = Number(this.slider.value);
    this.touched = Date.now();
    this.shown(value > STEPS ? "no limit" : rate(at(value)));
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.act(value > STEPS ? "none" : limit(at(value))), 150);
  }

  private shown(text: string): void {
    say(this.words, text);
    this.slider.setAttribute("aria-valuetext", text);
  }

  // What holds: bits per second and its words; whoever is just moving it is left alone.
  show(bps: number | null, text: string): void {
    if (Date.now() - this.touched < 1500) return;
    this.slider.value = String(bps === null ? STEPS + 1 : Math.min(Math.max(step(Math.max(bps, LEAST)), 0), STEPS));
    this.shown(text);
  }
}
