// Requests to the API in the name of one owner.

const TIMEOUT_MS = 30_000;

/** An error that the API returned, or that it could not be reached (status 0). */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   * @param {number} [position] of an error in a query
   */
  constructor(message, status, position) {
    super(message);
    this.status = status;
    this.position = position;
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** The owner has signed out: nothing may be shown any more. */
export class SignedOut extends Error {}

/** The API for one token. After `close` every request fails with SignedOut, also those that are running. */
export class Api {
  #token;
  #closing = new AbortController();
  #onUnauthorized;

  /**
   * @param {string} token
   * @param {() => void} onUnauthorized is called if the token is not valid
   */
  constructor(token, onUnauthorized) {
    this.#token = token;
    this.#onUnauthorized = onUnauthorized;
  }

  close() {
    this.#token = "";
    this.#closing.abort();
  }

  get isClosed() {
    return this.#closing.signal.aborted;
  }

  /**
   * Return the content of a response. Throws ApiError or SignedOut.
   * @param {string} method
   * @param {string} path below `api/`
   * @param {object} [body]
   * @returns {Promise<any>}
   */
  async request(method, path, body) {
    const { status, content } = await this.#fetch(method, path, body);
    if (this.isClosed) throw new SignedOut();
    if (status < 400) return content;
    if (status === 401) this.#onUnauthorized();
    throw new ApiError(content?.error ?? `The server answered with status ${status}.`, status, content?.position);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   */
  async #fetch(method, path, body) {
    if (this.isClosed) throw new SignedOut();
    try {
      const response = await fetch(`api/${path}`, {
        method,
        headers: { Authorization: `Bearer ${this.#token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
        body: body ? JSON.stringify(body) : undefined,
        cache: "no-store",
        signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const text = await response.text();
      return { status: response.status, content: parse(text) };
    } catch (error) {
      if (this.isClosed) throw new SignedOut();
      throw new ApiError("The server cannot be reached.", 0);
    }
  }
}

/**
 * Return the value of a JSON text; null if it is none, such as an error page of a proxy.
 * @param {string} text
 */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
