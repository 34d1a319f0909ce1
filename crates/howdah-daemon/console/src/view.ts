import type { Told } from "./store.ts";

// A part of the page that is shown alone.
export interface View {
  element: HTMLElement;
  told?: (told: Told) => void;
  close?: () => void;
}
