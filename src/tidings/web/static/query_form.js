// The form for a new query, which is checked while it is typed.

import { ApiError } from "./api.js";
import { $, createElement } from "./dom.js";
import { formatEstimate } from "./estimate.js";
import { withErrorToast } from "./toast.js";

const CHECK_DELAY_MS = 180;
const MAX_CONJUNCTIONS = 12;
const CARET_CONTEXT = 40;

export class QueryForm {
  #api;
  #onSubscribed;
  #timer = 0;
  #submitting = ""; // the query that is being sent

  /**
   * @param {import("./api.js").Api} api
   * @param {(id: number) => Promise<void>} onSubscribed
   */
  constructor(api, onSubscribed) {
    this.#api = api;
    this.#onSubscribed = onSubscribed;
    $("query").addEventListener("input", () => this.#checkSoon());
    $("query-form").addEventListener("submit", withErrorToast((event) => this.#submit(event)));
  }

  close() {
    clearTimeout(this.#timer);
  }

  #checkSoon() {
    clearTimeout(this.#timer);
    const query = readQuery();
    if (query) this.#timer = setTimeout(() => this.#check(query), CHECK_DELAY_MS);
    else $("explanation").replaceChildren();
  }

  /** @param {string} query */
  async #check(query) {
    const check = await this.#api.request("POST", "check", { query }).catch((error) => error);
    if (this.#api.isClosed || query !== readQuery()) return;
    if (!(check instanceof Error)) $("explanation").replaceChildren(...renderCheck(check));
    else if (check instanceof ApiError) $("explanation").replaceChildren(...renderError(query, check));
  }

  /**
   * Subscribe; the server checks the query, so there is no need to wait for the explanation.
   * @param {Event} event
   */
  async #submit(event) {
    event.preventDefault();
    const query = readQuery();
    if (!query || query === this.#submitting) return;
    this.#submitting = query;
    clearTimeout(this.#timer);
    try {
      const { id } = await this.#api.request("POST", "subscriptions", { query });
      if (query === readQuery()) $("query").value = "";
      this.#checkSoon();
      await this.#onSubscribed(id);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 422)) throw error;
      $("explanation").replaceChildren(...renderError(query, error));
    } finally {
      if (this.#submitting === query) this.#submitting = "";
    }
  }
}

const readQuery = () => $("query").value.trim();

/**
 * @param {string} query
 * @param {ApiError} error
 */
function renderError(query, error) {
  const parts = [createElement("span", { className: "error", textContent: error.message })];
  if (error.position !== undefined) {
    const start = Math.max(0, error.position - CARET_CONTEXT);
    const pointer = `${query.slice(start, start + 2 * CARET_CONTEXT)}\n${" ".repeat(error.position - start)}^`;
    parts.push(createElement("span", { className: "caret", textContent: pointer }));
  }
  return parts;
}

/** @param {any} check */
function renderCheck(check) {
  const shown = check.conjunctions.slice(0, MAX_CONJUNCTIONS);
  const parts = shown.map((/** @type {any} */ part) =>
    createElement("span", { className: "conjunction", textContent: part.text, title: "words match in any form" }));
  const hidden = check.conjunctions.length - shown.length;
  if (hidden) parts.push(`and ${hidden} more `);
  const pieces = check.ignored.map((/** @type {any} */ part) => part.piece).join(", ");
  const ignored = pieces && ` Ignored: ${pieces}.`;
  return [...parts, createElement("span", { className: "estimate", textContent: `${formatEstimate(check)}${ignored}` })];
}
