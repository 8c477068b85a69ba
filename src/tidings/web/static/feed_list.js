// The feeds that are crawled for the owner.

import { ApiError } from "./api.js";
import { confirmAction } from "./confirmation.js";
import { $, createElement, setText, updateList } from "./dom.js";
import { withErrorToast } from "./toast.js";

/** @typedef {{id: string, url: string, title: string, state: string, error: string}} Feed */

export class FeedList {
  #api;

  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this.#api = api;
    $("feed-form").addEventListener("submit", withErrorToast((event) => this.#add(event)));
  }

  /** Read all feeds and show them. */
  async update() {
    const { feeds } = await this.#api.request("GET", "feeds");
    const create = (/** @type {Feed} */ feed) => this.#createItem(feed);
    updateList($("feeds"), feeds, (feed) => feed.id, create, updateItem, $("feeds-heading"));
  }

  /** @param {Feed} feed */
  #createItem(feed) {
    const remove = createElement("button", { type: "button", className: "link", textContent: "Remove" });
    remove.addEventListener("click", withErrorToast(() => this.#remove(feed.id, remove.ariaLabel)));
    return createElement("li", {}, createElement("span", { className: "name", dir: "auto" }), createElement("span", {}), remove);
  }

  /**
   * @param {string} id
   * @param {string} label
   */
  async #remove(id, label) {
    if (!(await confirmAction(`${label}?`, "Remove"))) return;
    $("feeds-heading").focus(); // not the button of the next feed
    await this.#api.request("DELETE", `feeds/${id}`);
    await this.update();
  }

  /** @param {Event} event */
  async #add(event) {
    event.preventDefault();
    const url = $("feed-url").value;
    if (!url.trim()) return;
    $("feed-error").textContent = "";
    try {
      await this.#api.request("POST", "feeds", { url });
      if ($("feed-url").value === url) $("feed-url").value = "";
      await this.update();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      $("feed-error").textContent = error.message;
    }
  }
}

/**
 * @param {any} element
 * @param {Feed} feed
 */
function updateItem(element, feed) {
  const [name, state, remove] = element.children;
  setText(name, feed.title || feed.url);
  name.title = feed.url;
  state.className = `state ${feed.state}`;
  setText(state, feed.state);
  state.title = feed.error;
  remove.ariaLabel = `Remove the feed ${feed.title || feed.url}`;
}
