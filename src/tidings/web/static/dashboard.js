// What an owner sees after signing in: a copy of the template, which `close` removes with everything in it.

import { ApiError, SignedOut } from "./api.js";
import { confirmAction } from "./confirmation.js";
import { $, createElement } from "./dom.js";
import { FeedList } from "./feed_list.js";
import { LiveUpdates } from "./live.js";
import { showLiveState } from "./live_state.js";
import { MatchList } from "./match_list.js";
import { QueryForm } from "./query_form.js";
import { QueryList } from "./query_list.js";
import { toast, withErrorToast } from "./toast.js";

const REFRESH_MS = 30_000; // of feeds and times, which no event announces
const FORMATS = { rss: "RSS", atom: "Atom", json: "JSON Feed" };

export class Dashboard {
  #api;
  /** @type {Element[]} */
  #elements = [];
  /** @type {number | null} */
  #selected = null;
  #isSelectedGone = false;
  #isStale = false; // whether a read failed
  /** @type {import("./live.js").LiveState} */
  #liveState = { connection: "connecting", phase: "" };

  /**
   * @param {import("./api.js").Api} api
   * @param {string} token
   * @param {string} owner
   * @param {{onSignOut: () => void, onGone: () => void}} callbacks
   */
  constructor(api, token, owner, { onSignOut, onGone }) {
    this.#api = api;
    this.#insertTemplate(owner);
    $("sign-out").addEventListener("click", onSignOut);
    $("renew").addEventListener("click", withErrorToast(() => this.#renewAddresses()));
    $("delete").addEventListener("click", withErrorToast(() => this.#delete()));
    $("skip").addEventListener("click", (/** @type {Event} */ event) => this.#skip(event));
    this.queries = new QueryList(api, (id) => this.#pick(id));
    this.matches = new MatchList(api, (id) => this.#showGone(id));
    this.feeds = new FeedList(api);
    this.form = new QueryForm(api, (id) => this.#showNew(id));
    this.live = new LiveUpdates(api, token, {
      onResume: () => this.#update(),
      onMatches: (id, matches) => this.#showNewMatches(id, matches),
      onSubscriptions: () => this.#update(),
      onState: (state) => this.#showState(state),
      onGone,
    });
    this.timer = setInterval(() => this.#refresh(), REFRESH_MS);
    this.#showState(this.#liveState);
    this.#update().then(() => this.#focusQuery());
  }

  /**
   * Remove everything of the owner from the page.
   * @param {boolean} isSignOut whether other tabs sign out too
   */
  close(isSignOut) {
    clearInterval(this.timer);
    this.form.close();
    this.live.close(isSignOut);
    this.#api.close();
    for (const element of this.#elements) element.remove();
  }

  get #isOpen() {
    return !this.#api.isClosed;
  }

  /** Focus the field of the query unless something else has the focus already. */
  #focusQuery() {
    if (this.#isOpen && document.activeElement === document.body) $("query").focus();
  }

  /** @param {string} owner */
  #insertTemplate(owner) {
    const copy = $("dashboard-template").content.cloneNode(true);
    const [skip, account, main] = (this.#elements = [...copy.children]);
    document.body.prepend(skip);
    document.querySelector("header")?.append(account);
    document.body.append(main);
    $("account-name").textContent = owner;
  }

  /**
   * Read everything again. Errors are not shown: the state line tells that the server is not reachable. If it is, for
   * example because it only refused a request, the next refresh reads again.
   */
  async #update() {
    this.#isStale = false;
    try {
      await Promise.all([this.queries.update(), this.feeds.update(), this.matches.update()]);
      if (this.#selected === null && this.queries.lastId !== null) this.#select(this.queries.lastId);
      if (this.#selected !== null && !this.queries.get(this.#selected)) this.#showGone(this.#selected);
    } catch (error) {
      if (!(error instanceof ApiError) && !(error instanceof SignedOut)) throw error;
      this.#isStale = true;
    }
  }

  #refresh() {
    if (document.hidden) return;
    this.matches.updateTimes();
    if (this.#isStale) this.#update();
    else this.feeds.update().catch(() => {}); // see #update
  }

  /**
   * @param {number} id
   * @param {number} count
   */
  #showNewMatches(id, count) {
    this.queries.setCount(id, count);
    if (id === this.#selected) this.matches.update().catch(() => (this.#isStale = true));
  }

  /** @param {number} id */
  async #showNew(id) {
    await this.queries.update();
    this.#select(id);
  }

  /**
   * Select a query and scroll to its matches if they are below the screen, as on phones.
   * @param {number} id
   */
  #pick(id) {
    this.#select(id);
    const selected = $("selected");
    if (selected.getBoundingClientRect().top > innerHeight / 2) selected.scrollIntoView({ block: "start" });
  }

  /** @param {number | null} id */
  #select(id) {
    const subscription = id === null ? undefined : this.queries.get(id);
    this.#selected = subscription ? id : null;
    this.#isSelectedGone = false;
    this.queries.markSelected(this.#selected);
    $("selected-query").hidden = !subscription;
    $("selected-query").textContent = subscription?.query ?? "";
    this.#showAddresses(subscription?.addresses);
    this.#showState(this.#liveState);
    this.matches.show(this.#selected).catch(() => (this.#isStale = true));
  }

  /** @param {Record<string, string>} [addresses] */
  #showAddresses(addresses) {
    $("query-actions").hidden = !addresses;
    const buttons = addresses ? Object.entries(FORMATS).map(([format, name]) => createCopyButton(name, addresses[format])) : [];
    $("addresses").replaceChildren(...buttons);
  }

  /**
   * Tell that a query was deleted elsewhere. Its matches stay until another query is selected.
   * @param {number} id
   */
  #showGone(id) {
    if (id !== this.#selected) return;
    this.#isSelectedGone = true;
    if ($("query-actions").contains(document.activeElement)) $("selected-query").focus();
    this.#showAddresses();
    this.#showState(this.#liveState);
  }

  /** @param {import("./live.js").LiveState} state */
  #showState(state) {
    this.#liveState = state;
    showLiveState(state, this.#isSelectedGone);
  }

  /** @param {Event} event */
  #skip(event) {
    event.preventDefault();
    const target = $(this.#selected === null ? "queries-heading" : "selected-query");
    target.focus();
  }

  async #renewAddresses() {
    const id = this.#selected;
    if (!(await confirmAction("Feed readers using the current addresses will stop working. Create new addresses?", "Create"))) return;
    const { addresses } = await this.#api.request("POST", `subscriptions/${id}/address`);
    if (id === this.#selected) this.#showAddresses(addresses);
    await this.queries.update();
  }

  async #delete() {
    const id = this.#selected;
    const query = $("selected-query").textContent;
    if (!(await confirmAction(`Delete the query “${query}” and all its matches?`, "Delete"))) return;
    $("queries-heading").focus(); // not a button of the next query
    await this.#api.request("DELETE", `subscriptions/${id}`);
    if (id === this.#selected) this.#select(null);
    await this.queries.update();
    if (this.#selected === null) this.#select(this.queries.lastId);
  }
}

/**
 * @param {string} name
 * @param {string} address
 */
function createCopyButton(name, address) {
  const button = createElement("button", { type: "button", className: "quiet", textContent: `Copy ${name} address`, title: address });
  const copy = async () => {
    if (!navigator.clipboard) return prompt("Copy this address:", address); // browsers provide it only with https
    await navigator.clipboard.writeText(address);
    toast("Copied. Add it to your feed reader.");
  };
  button.addEventListener("click", withErrorToast(copy));
  return button;
}
