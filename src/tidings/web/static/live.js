// Keeps a tab up to date: by the shared stream of events, or by polling where there is none or it is interrupted.

import { ApiError } from "./api.js";

const POLL_MS = 10_000;
const FIRST_POLL_MS = 3_000; // a stream that connects takes less
const FIRST_RETRY_MS = 1_000; // then two, four … seconds
const MAX_RETRY_MS = 15_000;
const WORKER_SILENCE_MS = 30_000; // the worker repeats its state every 10 s
const WORKER_NAME = "tidings-live-1"; // change it with the messages: an old worker may run on in older tabs

/** @type {any} the trusted types policy, once it is created */
let policy;

/**
 * @typedef {object} LiveListener
 * @property {() => void} onResume after a gap: anything may have changed
 * @property {(subscription: number, matches: number) => void} onMatches a subscription has new matches
 * @property {() => void} onSubscriptions subscriptions were added or removed
 * @property {(state: LiveState) => void} onState
 * @property {() => void} onGone the token is not valid any more
 */

/** @typedef {{connection: "connecting" | "open" | "polling" | "offline", phase: string}} LiveState */

export class LiveUpdates {
  #api;
  #token;
  #listener;
  /** @type {MessagePort | null} */
  #port = null;
  /** @type {LiveState} */
  #state = { connection: "connecting", phase: "" };
  #timer = 0;
  #silenceTimer = 0;
  #retryMs = FIRST_RETRY_MS;
  #isClosed = false;
  #onPageHide = () => this.#port?.postMessage({ type: "leave" });
  #onPageShow = (/** @type {PageTransitionEvent} */ event) => event.persisted && this.#restartWorker();
  #onOnline = () => this.#state.connection !== "open" && this.#poll();

  /**
   * @param {import("./api.js").Api} api
   * @param {string} token
   * @param {LiveListener} listener
   */
  constructor(api, token, listener) {
    this.#api = api;
    this.#token = token;
    this.#listener = listener;
    addEventListener("pagehide", this.#onPageHide);
    addEventListener("pageshow", this.#onPageShow);
    addEventListener("online", this.#onOnline);
    this.#port = this.#connect();
    this.#join();
    this.#schedule(this.#port ? FIRST_POLL_MS : 0);
  }

  /** Stop, and end the streams of all tabs if the owner signs out. */
  close(isSignOut = true) {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#silenceTimer);
    this.#port?.postMessage({ type: isSignOut ? "signOut" : "leave" });
    this.#port?.close();
    this.#token = "";
    removeEventListener("pagehide", this.#onPageHide);
    removeEventListener("pageshow", this.#onPageShow);
    removeEventListener("online", this.#onOnline);
  }

  #connect() {
    try {
      const worker = new SharedWorker(workerUrl(), { name: WORKER_NAME, type: "module" });
      worker.port.onmessage = ({ data }) => this.#receive(data);
      return worker.port;
    } catch {
      return null; // not supported: this tab polls
    }
  }

  #join() {
    this.#port?.postMessage({ type: "join", token: this.#token });
    this.#expectMessage();
  }

  #expectMessage() {
    clearTimeout(this.#silenceTimer);
    if (this.#port) this.#silenceTimer = setTimeout(() => this.#restartWorker(), WORKER_SILENCE_MS);
  }

  /** @param {{state?: string, event?: string, data?: string}} message */
  #receive({ state, event, data }) {
    if (this.#isClosed) return;
    this.#expectMessage();
    if (state) this.#receiveState(state);
    const content = data ? JSON.parse(data) : {};
    if (event === "status") this.#setState({ phase: content.stream });
    if (event === "matches") this.#listener.onMatches(content.subscription, content.matches);
    if (event === "subscriptions") this.#listener.onSubscriptions();
  }

  /** Connect to a new worker, or to the old one if it was only slow. */
  #restartWorker() {
    this.#port?.postMessage({ type: "leave" });
    this.#port?.close();
    this.#port = this.#connect();
    this.#join();
    this.#poll();
  }

  /** @param {string} state */
  #receiveState(state) {
    if (state === "gone") return this.#listener.onGone();
    if (state === "open" && this.#state.connection === "open") return; // repeated
    if (state === "open") {
      clearTimeout(this.#timer);
      this.#setState({ connection: "open" });
      this.#listener.onResume();
    } else if (this.#state.connection === "open") {
      this.#poll(); // tells whether only the stream is lost
    }
  }

  /** @param {number} ms */
  #schedule(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), ms);
  }

  /** Poll until the stream is open. */
  async #poll() {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    if (this.#state.connection === "open") this.#setState({ connection: "connecting" });
    const delayMs = await this.#pollOnce();
    if (this.#state.connection !== "open" && !this.#api.isClosed) this.#schedule(delayMs);
  }

  /** Poll once and return when to poll again. */
  async #pollOnce() {
    try {
      const { stream } = await this.#api.request("GET", "status");
      this.#retryMs = FIRST_RETRY_MS;
      if (this.#state.connection === "open") return 0; // meanwhile
      this.#setState({ connection: "polling", phase: stream });
      this.#port?.postMessage({ type: "hurry" });
      this.#listener.onResume();
      return POLL_MS;
    } catch (error) {
      if (error instanceof ApiError && this.#state.connection !== "open") this.#setState({ connection: "offline" });
      this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
      return this.#retryMs / 2;
    }
  }

  /** @param {Partial<LiveState>} change */
  #setState(change) {
    this.#state = { ...this.#state, ...change };
    if (!this.#isClosed) this.#listener.onState(this.#state);
  }
}

/** Return the address of the worker, as a trusted type where browsers enforce these. */
function workerUrl() {
  const url = new URL("live_worker.js", import.meta.url).href;
  const factory = /** @type {any} */ (globalThis).trustedTypes;
  policy ??= factory?.createPolicy("tidings-worker", { createScriptURL: () => url }) ?? null;
  return policy ? policy.createScriptURL("") : url;
}
