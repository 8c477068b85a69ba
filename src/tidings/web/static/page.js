// The web page of Tidings: signing in and out.

import { Api, ApiError, SignedOut } from "./api.js";
import { ignoreRepeatedKeys } from "./confirmation.js";
import { Dashboard } from "./dashboard.js";
import { $ } from "./dom.js";
import { endEpoch, forgetToken, loadToken, onOtherTabSignedOut, storeToken } from "./session.js";

const RETRY_MS = 3_000;
const UNKNOWN = "This token is unknown or was revoked.";
const REVOKED = "You were signed out: your token was revoked.";
/** @type {Dashboard | null} */
let dashboard = null;
/** @type {Api | null} of the owner that is signed in or signing in */
let api = null;
let retryTimer = 0;

/** @param {string} token */
async function signIn(token) {
  clearTimeout(retryTimer);
  api?.close();
  const newApi = (api = new Api(token, () => leave(false, REVOKED)));
  const account = await newApi.request("GET", "me");
  storeToken(token);
  $("sign-in-form").reset();
  showReason("", "");
  $("sign-in").hidden = true;
  const callbacks = { onSignOut: () => leave(true, ""), onGone: () => leave(false, REVOKED) };
  dashboard = new Dashboard(newApi, token, account.name, callbacks);
}

/**
 * Leave nothing of the owner in this tab.
 * @param {boolean} isSignOut whether the owner signs out here, so that the other tabs must follow
 * @param {string} reason shown above the form
 */
function leave(isSignOut, reason) {
  const wasSignedIn = dashboard !== null;
  clearTimeout(retryTimer);
  dashboard?.close(isSignOut);
  api?.close();
  dashboard = api = null;
  if (isSignOut) endEpoch();
  else forgetToken();
  $("sign-in-form").reset();
  $("sign-in").hidden = false;
  showReason(reason, "");
  if (wasSignedIn) $("token").focus();
}

/**
 * @param {string} reason
 * @param {string} error
 */
function showReason(reason, error) {
  $("sign-in-reason").textContent = reason;
  $("sign-in-error").textContent = error;
}

/**
 * Sign in with a token that was not typed; try again while the server is not reachable.
 * @param {string} token
 */
async function resume(token) {
  try {
    await signIn(token);
  } catch (error) {
    if (!(error instanceof ApiError)) return;
    if (error.status === 401) return showReason("", UNKNOWN);
    showReason("", `${error.message} Trying again…`);
    retryTimer = setTimeout(() => resume(token), RETRY_MS);
  }
}

/** Return the token of a sign-in link and remove it from the address. It is in the fragment, which browsers never send. */
function takeLinkToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (token) history.replaceState(null, "", location.pathname);
  return token;
}

$("sign-in-form").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  showReason("", "");
  const token = $("token").value.trim();
  try {
    await signIn(token);
  } catch (error) {
    if (error instanceof SignedOut) return;
    if (!(error instanceof ApiError)) throw error;
    showReason("", error.status === 401 ? UNKNOWN : error.message);
  }
});

onOtherTabSignedOut(() => leave(false, "You signed out in another tab."));
ignoreRepeatedKeys();

addEventListener("hashchange", () => {
  const token = takeLinkToken();
  if (!token) return;
  leave(false, "");
  resume(token);
});
const firstToken = takeLinkToken() || loadToken();
if (firstToken) resume(firstToken);
