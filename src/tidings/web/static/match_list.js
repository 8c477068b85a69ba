// The matches of the selected query, newest first. Nothing moves while somebody reads: new matches then wait behind a
// button.

import { ApiError } from "./api.js";
import { $ } from "./dom.js";
import { createMatch } from "./match_view.js";
import { updateTimes } from "./times.js";

const MAX_MATCHES = 200; // on the page, unless older ones are asked for
const FIRST_MATCHES = 50;
const PAGE_MATCHES = 200;

/**
 * @typedef {object} View the matches of one query
 * @property {number} id of the subscription
 * @property {number | null} newest cursor that was read; null before the first page
 * @property {number} oldest cursor that is shown
 * @property {boolean} isReading
 * @property {boolean} mustReadAgain
 * @property {import("./match_view.js").Match[]} waiting new matches that are not shown yet, only as many as can be shown
 * @property {number} waitingCount all new matches that are not shown yet
 */

export class MatchList {
  #api;
  #onGone;
  /** @type {View | null} */
  #view = null;

  /**
   * @param {import("./api.js").Api} api
   * @param {(subscription: number) => void} onGone is called if the subscription does not exist any more
   */
  constructor(api, onGone) {
    this.#api = api;
    this.#onGone = onGone;
    $("new-matches").addEventListener("click", () => this.#showWaiting(true));
    $("older-matches").addEventListener("click", () => this.#readOlder());
  }

  /**
   * Show the matches of another subscription, or none.
   * @param {number | null} id
   */
  show(id) {
    this.#view = id === null ? null : { id, newest: null, oldest: 0, isReading: false, mustReadAgain: false, waiting: [], waitingCount: 0 };
    $("matches").replaceChildren();
    $("no-matches").hidden = true;
    $("older-matches").hidden = true;
    this.#showWaitingCount();
    return this.update();
  }

  /** Read the matches after the last one. Every match is shown once, whatever happened to the connection. */
  async update() {
    const view = this.#view;
    if (!view) return;
    view.mustReadAgain = true;
    if (view.isReading) return;
    view.isReading = true;
    try {
      while (view.mustReadAgain && view === this.#view) {
        view.mustReadAgain = false;
        await (view.newest === null ? this.#readFirst(view) : this.#readNew(view, view.newest));
      }
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error; // the next update reads them
      if (view === this.#view) this.#onGone(view.id);
    } finally {
      view.isReading = false;
    }
  }

  updateTimes() {
    updateTimes($("matches"));
  }

  /** @param {View} view */
  async #readFirst(view) {
    const page = await this.#readBefore(view.id, Number.MAX_SAFE_INTEGER);
    if (view !== this.#view) return;
    view.newest = page.matches.at(-1)?.cursor ?? 0;
    view.oldest = page.cursor;
    $("matches").append(...createItems(page));
    $("no-matches").hidden = page.matches.length > 0;
    $("older-matches").hidden = !page.more;
  }

  /**
   * @param {View} view
   * @param {number} after
   */
  async #readNew(view, after) {
    const page = await this.#api.request("GET", `subscriptions/${view.id}/matches?after=${after}&limit=${PAGE_MATCHES}`);
    if (view !== this.#view) return;
    view.newest = page.cursor;
    view.mustReadAgain ||= page.more;
    view.waiting = [...view.waiting, ...page.matches].slice(-MAX_MATCHES);
    view.waitingCount += page.matches.length;
    if (!isBeingRead() && $("new-matches").hidden) this.#showWaiting(false);
    else this.#showWaitingCount();
  }

  async #readOlder() {
    const view = this.#view;
    if (!view) return;
    $("older-matches").disabled = true;
    try {
      const page = await this.#readBefore(view.id, view.oldest);
      if (view !== this.#view) return;
      view.oldest = page.cursor;
      const items = createItems(page);
      $("matches").append(...items);
      items[0]?.focus({ preventScroll: true });
      $("older-matches").hidden = !page.more;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the button stays
    } finally {
      $("older-matches").disabled = false;
    }
  }

  /**
   * @param {number} id
   * @param {number} cursor
   */
  #readBefore(id, cursor) {
    return this.#api.request("GET", `subscriptions/${id}/matches?before=${cursor}&limit=${FIRST_MATCHES}`);
  }

  /**
   * Show the matches that wait.
   * @param {boolean} isRequested by the reader, who is taken to them
   */
  #showWaiting(isRequested) {
    const view = this.#view;
    if (!view) return;
    const items = view.waiting.map((match) => createMatch(match, true));
    view.waiting = [];
    view.waitingCount = 0;
    $("matches").prepend(...items.reverse());
    if (items.length) this.#dropOldest(view);
    this.#showWaitingCount();
    if (isRequested) {
      items[0]?.focus({ preventScroll: true });
      $("selected").scrollIntoView({ block: "start" });
    }
  }

  /** @param {View} view */
  #dropOldest(view) {
    const list = $("matches");
    $("no-matches").hidden = true;
    if (list.children.length <= MAX_MATCHES) return;
    while (list.children.length > MAX_MATCHES) list.lastChild.remove();
    view.oldest = Number(list.lastChild.dataset.cursor);
    $("older-matches").hidden = false;
  }

  #showWaitingCount() {
    const count = this.#view?.waitingCount ?? 0;
    const button = $("new-matches");
    if (!count && button === document.activeElement) $("selected-query").focus({ preventScroll: true });
    button.hidden = !count;
    button.textContent = count === 1 ? "1 new match" : `${count.toLocaleString()} new matches`;
  }
}

/** Return whether somebody may be reading the list: scrolled, pointing at it, selecting in it or focusing in it. */
function isBeingRead() {
  const list = $("matches");
  if (!list.children.length) return false;
  const selection = getSelection();
  const hasSelection = selection !== null && !selection.isCollapsed && list.contains(selection.anchorNode);
  return scrollY > 0 || hasSelection || list.matches(":hover") || list.contains(document.activeElement);
}

/**
 * Return the elements of a page of matches, newest first.
 * @param {{matches: import("./match_view.js").Match[]}} page
 */
function createItems({ matches }) {
  return matches.map((match) => createMatch(match, false)).reverse();
}
