// Short messages at the bottom of the page.

import { SignedOut } from "./api.js";
import { $ } from "./dom.js";

const SHOWN_MS = 4_000;
let timer = 0;

/**
 * Show a sentence for a few seconds.
 * @param {string} sentence
 */
export function toast(sentence) {
  if (!$("toast")) return; // signed out
  clearTimeout(timer);
  $("toast").textContent = sentence;
  $("toast").classList.add("shown");
  timer = setTimeout(() => $("toast")?.classList.remove("shown"), SHOWN_MS);
}

/**
 * Return a function that shows the error of an asynchronous one.
 * @template {any[]} Arguments
 * @param {(...args: Arguments) => Promise<unknown>} task
 * @returns {(...args: Arguments) => Promise<unknown>}
 */
export const withErrorToast =
  (task) =>
  (...args) =>
    task(...args).catch((error) => {
      if (!(error instanceof SignedOut)) toast(error.message);
    });
