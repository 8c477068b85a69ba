// The list of queries.

import { $, createElement, setText, updateList } from "./dom.js";

const PAGE_SUBSCRIPTIONS = 1000;

/** @typedef {{id: number, query: string, matches: number, addresses: Record<string, string>}} Subscription */

export class QueryList {
  #api;
  #onSelect;
  /** @type {Map<number, Subscription>} */
  #subscriptions = new Map();
  /** @type {number | null} */
  #selected = null;
  #started = 0; // updates
  #applied = 0;

  /**
   * @param {import("./api.js").Api} api
   * @param {(id: number) => void} onSelect
   */
  constructor(api, onSelect) {
    this.#api = api;
    this.#onSelect = onSelect;
  }

  /** @param {number} id */
  get(id) {
    return this.#subscriptions.get(id);
  }

  get lastId() {
    return [...this.#subscriptions.keys()].at(-1) ?? null;
  }

  /** Read all subscriptions and show them. */
  async update() {
    const number = ++this.#started;
    const subscriptions = await this.#readAll();
    if (number < this.#applied) return; // a later update has newer rows
    this.#applied = number;
    this.#subscriptions = new Map(subscriptions.map((subscription) => [subscription.id, subscription]));
    this.#show();
  }

  /** @returns {Promise<Subscription[]>} */
  async #readAll() {
    const subscriptions = [];
    let after = 0;
    do {
      const page = await this.#api.request("GET", `subscriptions?limit=${PAGE_SUBSCRIPTIONS}&after=${after}`);
      subscriptions.push(...page.subscriptions);
      after = page.next;
    } while (after !== null);
    return subscriptions;
  }

  /** @param {number | null} id */
  markSelected(id) {
    this.#selected = id;
    this.#show();
  }

  /**
   * @param {number} id
   * @param {number} matches
   */
  setCount(id, matches) {
    const subscription = this.#subscriptions.get(id);
    if (subscription) subscription.matches = matches;
    this.#show();
  }

  #show() {
    const items = [...this.#subscriptions.values()];
    $("no-queries").hidden = items.length > 0;
    const create = (/** @type {Subscription} */ item) => this.#createItem(item);
    const update = (/** @type {HTMLElement} */ element, /** @type {Subscription} */ item) => this.#updateItem(element, item);
    updateList($("subscriptions"), items, (item) => item.id, create, update, $("queries-heading"));
  }

  /** @param {Subscription} subscription */
  #createItem({ id, query }) {
    const name = createElement("span", { className: "query", textContent: query, title: query, dir: "auto" });
    const button = createElement("button", { type: "button", className: "pick" }, name, createElement("span", { className: "count" }));
    button.addEventListener("click", () => this.#onSelect(id));
    return createElement("li", {}, button);
  }

  /**
   * @param {any} element
   * @param {Subscription} subscription
   */
  #updateItem(element, { id, matches }) {
    setText(element.querySelector(".count"), matches.toLocaleString());
    element.firstChild.setAttribute("aria-current", String(id === this.#selected));
  }
}
