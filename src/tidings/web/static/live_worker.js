// A shared worker: one stream of events per owner for all tabs of the browser. Browsers open six connections to a
// server that speaks HTTP/1.1, so a stream per tab would leave none for requests.
//
// A tab sends {type: "join", token}, {type: "leave"}, {type: "hurry"} and {type: "signOut"}. It receives {state} and {event, data}.
// The state is repeated: a browser may end a worker without telling its tabs, for example when memory is short.

import { readEvents } from "./event_stream.js";

const MAX_STREAMS = 2; // tabs of further owners poll
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;
const SILENCE_MS = 40_000; // the server sends a ping every 15 s
const REPEAT_MS = 10_000; // see WORKER_SILENCE_MS of the tabs
const ADDRESS = new URL("../api/live", import.meta.url);

/** @type {Map<string, SharedStream>} */
const streams = new Map();

class SharedStream {
  /** @type {Set<MessagePort>} */
  ports = new Set();
  state = "connecting";
  status = ""; // the last event `status`, for tabs that join later
  #closing = new AbortController();
  #wake = () => {};

  /** @param {string} token */
  constructor(token) {
    this.run(token);
  }

  /** @param {string} token */
  async run(token) {
    let delayMs = FIRST_DELAY_MS;
    while (!this.#closing.signal.aborted) {
      const state = await this.#readOnce(token);
      if (state === "gone") return this.#setState("gone");
      if (this.state === "open") delayMs = FIRST_DELAY_MS;
      this.#setState("offline");
      await this.#pause(delayMs * (0.75 + Math.random() / 2));
      delayMs = Math.min(delayMs * 2, MAX_DELAY_MS);
    }
  }

  /**
   * Read events until the connection ends; return "gone" if the token is not valid.
   * @param {string} token
   */
  async #readOnce(token) {
    const connection = new AbortController();
    const signal = AbortSignal.any([this.#closing.signal, connection.signal]);
    try {
      const headers = { Authorization: `Bearer ${token}` };
      const response = await fetch(ADDRESS, { headers, signal, cache: "no-store" });
      if (response.status === 401) return "gone";
      if (!response.ok || !response.body) return "offline";
      for await (const event of readEvents(response.body, SILENCE_MS)) {
        if (event.name === "gone") return "gone";
        this.#forward(event);
      }
    } catch {
      // lost; the caller connects again
    } finally {
      connection.abort();
    }
    return "offline";
  }

  /** @param {{name: string, data: string}} event */
  #forward(event) {
    if (event.name === "status") this.status = event.data;
    for (const port of this.ports) port.postMessage({ event: event.name, data: event.data });
    this.#setState("open");
  }

  /** @param {string} state */
  #setState(state) {
    if (this.#closing.signal.aborted || state === this.state) return;
    this.state = state;
    this.sendState();
  }

  sendState() {
    for (const port of this.ports) port.postMessage({ state: this.state });
  }

  /** @param {number} ms */
  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }

  /** Connect at once if the stream is waiting. */
  hurry() {
    this.#wake();
  }

  close() {
    this.#closing.abort();
    this.#wake();
  }
}

/**
 * @param {MessagePort} port
 * @param {string} token
 */
function join(port, token) {
  let stream = streams.get(token);
  if (stream?.state === "gone") leave(stream, token);
  stream = streams.get(token);
  if (!stream && streams.size >= MAX_STREAMS) return port.postMessage({ state: "refused" });
  if (!stream) streams.set(token, (stream = new SharedStream(token)));
  stream.ports.add(port);
  if (stream.state === "open") port.postMessage({ event: "status", data: stream.status });
  port.postMessage({ state: stream.state });
}

/**
 * @param {SharedStream} stream
 * @param {string} token
 */
function leave(stream, token) {
  stream.close();
  streams.delete(token);
}

/** @param {MessagePort} port */
function leaveAll(port) {
  for (const [token, stream] of streams) {
    stream.ports.delete(port);
    if (!stream.ports.size) leave(stream, token);
  }
}

function signOut() {
  for (const [token, stream] of streams) leave(stream, token);
}

function hurry() {
  for (const stream of streams.values()) stream.hurry();
}

addEventListener("online", hurry);
setInterval(() => streams.forEach((stream) => stream.sendState()), REPEAT_MS);

addEventListener("connect", (/** @type {any} */ { ports: [port] }) => {
  port.onmessage = (/** @type {MessageEvent} */ { data }) => {
    if (data.type === "join") join(port, data.token);
    if (data.type === "leave") leaveAll(port);
    if (data.type === "hurry") hurry();
    if (data.type === "signOut") signOut();
  };
});
