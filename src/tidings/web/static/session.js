// The token of this tab. Signing out in one tab signs out all tabs of the browser, also those that are suspended,
// or closed and opened again: each sign-in belongs to an epoch, and signing out starts a new one.

const TOKEN = "tidings-token"; // in sessionStorage
const EPOCH = "tidings-epoch"; // in both: of the sign-in of this tab, and of the browser

/** Return the token of this tab, or "" if it is not signed in any more. */
export function loadToken() {
  const token = read(sessionStorage, TOKEN);
  if (token && isCurrent()) return token;
  forgetToken();
  return "";
}

/**
 * Store the token of this tab.
 * @param {string} token
 */
export function storeToken(token) {
  const epoch = read(localStorage, EPOCH) || newEpoch();
  write(localStorage, EPOCH, epoch);
  write(sessionStorage, EPOCH, epoch);
  write(sessionStorage, TOKEN, token);
}

/** Forget the token of this tab only. */
export function forgetToken() {
  try {
    sessionStorage.clear();
  } catch {} // without storage nothing was stored
}

/** Forget the token and sign out the other tabs of this browser. */
export function endEpoch() {
  forgetToken();
  write(localStorage, EPOCH, newEpoch());
}

/**
 * Call a function when another tab has signed out.
 * @param {() => void} callback
 */
export function onOtherTabSignedOut(callback) {
  const check = () => {
    if (read(sessionStorage, TOKEN) && !isCurrent()) callback();
  };
  addEventListener("storage", check);
  addEventListener("pageshow", check); // restored from the back-forward cache
  document.addEventListener("visibilitychange", check);
}

const isCurrent = () => read(sessionStorage, EPOCH) === read(localStorage, EPOCH);

function newEpoch() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("-");
}

/**
 * @param {Storage} storage
 * @param {string} key
 */
function read(storage, key) {
  try {
    return storage.getItem(key);
  } catch {
    return null;
  }
}

/**
 * @param {Storage} storage
 * @param {string} key
 * @param {string} value
 */
function write(storage, key, value) {
  try {
    storage.setItem(key, value);
  } catch {} // blocked: the tab is signed in until it is closed or reloaded
}
