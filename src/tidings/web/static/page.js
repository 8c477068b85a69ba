// The web page of Tidings. Text of posts is inserted only as text, never as markup.
"use strict";

const MAX_MATCHES = 200; // on the page
const MAX_TEXT_CHARACTERS = 1200;
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("tidings-token") || "";
let subscriptions = [];
let selected = null; // id of the subscription whose matches are shown
let source = null; // its live events

// requests

async function request(method, path, body) {
  const response = await fetch(`api/${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body ? JSON.stringify(body) : undefined,
  });
  const content = response.status === 204 ? null : await response.json();
  if (response.ok) return content;
  if (response.status === 401) signOut();
  throw Object.assign(new Error(content.error), { status: response.status, position: content.position });
}

function createElement(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function toast(sentence) {
  $("toast").textContent = sentence;
  $("toast").classList.add("shown");
  setTimeout(() => $("toast").classList.remove("shown"), 2500);
}

const withErrorToast = (task) => (...args) => task(...args).catch((error) => toast(error.message));

// sign in and out

async function signIn() {
  const account = await request("GET", "me");
  sessionStorage.setItem("tidings-token", token);
  $("account-name").textContent = account.name;
  $("account").hidden = $("dashboard").hidden = false;
  $("sign-in").hidden = true;
  await Promise.all([showSubscriptions(), showFeeds()]);
  if (subscriptions.length) select(subscriptions[subscriptions.length - 1].id);
  $("query").focus();
}

function signOut() {
  sessionStorage.removeItem("tidings-token");
  token = "";
  listen(null);
  $("account").hidden = $("dashboard").hidden = true;
  $("sign-in").hidden = false;
}

$("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("sign-in-error").textContent = "";
  try {
    await signIn();
    $("token").value = "";
  } catch (error) {
    $("sign-in-error").textContent = error.status === 401 ? "This token is unknown or was revoked." : error.message;
  }
});
$("sign-out").addEventListener("click", signOut);

// the query, checked while it is typed

let checkNumber = 0;
let checkTimer = null;

function checkQuery() {
  clearTimeout(checkTimer);
  $("subscribe").disabled = true;
  const query = $("query").value.trim();
  if (!query) return $("explanation").replaceChildren();
  checkTimer = setTimeout(async () => {
    const number = ++checkNumber;
    const check = await request("POST", "check", { query }).catch((error) => error);
    if (number !== checkNumber || query !== $("query").value.trim()) return;
    $("subscribe").disabled = check instanceof Error;
    $("explanation").replaceChildren(...(check instanceof Error ? renderError(query, check) : renderCheck(check)));
  }, 180);
}

function renderError(query, error) {
  const parts = [createElement("span", { className: "error", textContent: error.message })];
  if (error.position !== undefined) {
    const start = Math.max(0, error.position - 40);
    parts.push(createElement("span", { className: "caret", textContent: `${query.slice(start, start + 80)}\n${" ".repeat(error.position - start)}^` }));
  }
  return parts;
}

function renderCheck(check) {
  const conjunctions = check.conjunctions.slice(0, 12).map((part) => createElement("span", { className: "conjunction", textContent: part.text, title: "words match in any form" }));
  if (check.conjunctions.length > 12) conjunctions.push(`and ${check.conjunctions.length - 12} more `);
  const ignored = check.ignored.length ? ` Ignored: ${check.ignored.map((part) => part.piece).join(", ")}.` : "";
  return [...conjunctions, createElement("span", { className: "estimate", textContent: `${formatEstimate(check)}${ignored}` })];
}

function formatEstimate(check) {
  if (check.matches_per_day === null) return "No posts have arrived yet, so there is no estimate.";
  const sample = `${check.sampled_posts.toLocaleString()} posts`;
  if (check.matches_per_day === 0) return `None of the last ${sample} matched.`;
  if (check.history_hours < 1) {
    const share = check.posts_per_day ? check.matches_per_day / check.posts_per_day : 0;
    return `About ${(100 * share).toFixed(share < 0.1 ? 1 : 0)} % of the last ${sample} matched.`;
  }
  const count = check.matches_per_day;
  const shown = count >= 10 ? `About ${Math.round(count).toLocaleString()}` : count >= 0.05 ? `About ${count.toFixed(1)}` : "Fewer than 0.1";
  const past = check.history_hours >= 48 ? `${Math.round(check.history_hours / 24)} days` : `${Math.max(1, Math.round(check.history_hours))} h`;
  return `${shown} matches per day, estimated from ${sample} of the last ${past}.`;
}

$("query").addEventListener("input", checkQuery);
$("query-form").addEventListener("submit", withErrorToast(async (event) => {
  event.preventDefault();
  const query = $("query").value.trim();
  if (!query || $("subscribe").disabled) return;
  const subscription = await request("POST", "subscriptions", { query });
  $("query").value = "";
  checkQuery();
  await showSubscriptions();
  select(subscription.id);
}));

// the list of queries

async function showSubscriptions() {
  subscriptions = [];
  let after = 0;
  do {
    const page = await request("GET", `subscriptions?limit=1000&after=${after}`);
    subscriptions.push(...page.subscriptions);
    after = page.next;
  } while (after !== null);
  $("no-queries").hidden = subscriptions.length > 0;
  $("subscriptions").replaceChildren(...subscriptions.map((subscription) => {
    const count = createElement("span", { className: "count", textContent: subscription.matches.toLocaleString() });
    const query = createElement("span", { className: "query", textContent: subscription.query, title: subscription.query });
    const button = createElement("button", { type: "button", className: "pick" }, query, count);
    button.dataset.id = subscription.id;
    button.setAttribute("aria-current", String(subscription.id === selected));
    button.addEventListener("click", () => select(subscription.id));
    return createElement("li", {}, button);
  }));
}

// the matches of one query, live

function select(id) {
  const subscription = subscriptions.find((candidate) => candidate.id === id);
  selected = subscription ? id : null;
  $("selected").hidden = !subscription;
  for (const button of document.querySelectorAll(".pick")) button.setAttribute("aria-current", String(button.dataset.id === String(selected)));
  if (!subscription) return listen(null);
  $("selected-query").textContent = subscription.query;
  $("addresses").replaceChildren(...["rss", "atom", "json"].map((format) => createCopyButton(format, subscription.addresses[format])));
  listen(subscription);
}

function createCopyButton(format, address) {
  const names = { rss: "RSS", atom: "Atom", json: "JSON Feed" };
  const button = createElement("button", { type: "button", className: "quiet", textContent: `Copy ${names[format]} address`, title: address });
  button.addEventListener("click", withErrorToast(async () => {
    if (!navigator.clipboard) return prompt("Copy this address:", address); // browsers provide it only with https
    await navigator.clipboard.writeText(address);
    toast("Copied. Add it to your feed reader.");
  }));
  return button;
}

function listen(subscription) {
  source?.close();
  source = null;
  showLiveState(false);
  $("matches").replaceChildren();
  $("no-matches").hidden = false;
  if (!subscription) return;
  const secret = subscription.addresses.live.split("/").slice(-2)[0];
  const stream = (source = new EventSource(`read/${secret}/live?last=50`));
  const startedAt = Date.now();
  stream.addEventListener("open", () => showLiveState(true));
  stream.addEventListener("error", () => showLiveState(false));
  stream.addEventListener("gone", () => stream.close());
  stream.addEventListener("match", (event) => {
    if (stream === source) showMatch(JSON.parse(event.data), Date.now() - startedAt > 1500);
  });
}

function showLiveState(isConnected) {
  $("live-state").classList.toggle("on", isConnected);
  $("live-state").title = isConnected ? "live" : "not connected";
}

function showMatch(match, isNew) {
  $("no-matches").hidden = true;
  const details = createElement("p", { className: "about" });
  const arrivedAt = new Date(match.arrived_at);
  details.append(createElement("time", { dateTime: match.arrived_at, textContent: arrivedAt.toLocaleString() }));
  if (match.author) details.append(createElement("span", { textContent: match.author }));
  for (const tag of match.tags.slice(0, 8)) details.append(createElement("span", { textContent: `#${tag}` }));
  if (/^https?:\/\//i.test(match.link || "") && URL.canParse(match.link)) {
    details.append(createElement("a", { href: match.link, textContent: new URL(match.link).hostname, rel: "noopener noreferrer nofollow", target: "_blank" }));
  }
  const text = match.text || "";
  const item = createElement("li", { className: isNew ? "fresh" : "" });
  if (match.title) item.append(createElement("p", { className: "head", textContent: match.title, dir: "auto" }));
  item.append(createElement("p", { className: "text", textContent: text.length > MAX_TEXT_CHARACTERS ? `${text.slice(0, MAX_TEXT_CHARACTERS)}…` : text, dir: "auto" }), details);
  $("matches").prepend(item);
  while ($("matches").children.length > MAX_MATCHES) $("matches").lastChild.remove();
}

$("renew").addEventListener("click", withErrorToast(async () => {
  if (!confirm("Feed readers using the current addresses will stop working. Create new addresses?")) return;
  await request("POST", `subscriptions/${selected}/address`);
  await showSubscriptions();
  select(selected);
}));
$("delete").addEventListener("click", withErrorToast(async () => {
  if (!confirm("Delete this query and all its matches?")) return;
  await request("DELETE", `subscriptions/${selected}`);
  await showSubscriptions();
  select(subscriptions.length ? subscriptions[0].id : null);
}));

// feeds

async function showFeeds() {
  const { feeds } = await request("GET", "feeds");
  $("feeds").replaceChildren(...feeds.map((feed) => {
    const name = createElement("span", { className: "name", textContent: feed.title || feed.url, title: feed.url });
    const state = createElement("span", { className: `state ${feed.state}`, textContent: feed.state, title: feed.error });
    const remove = createElement("button", { type: "button", className: "link", textContent: "Remove" });
    remove.addEventListener("click", withErrorToast(async () => {
      await request("DELETE", `feeds/${feed.id}`);
      await showFeeds();
    }));
    return createElement("li", {}, name, state, remove);
  }));
}

$("feed-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("feed-error").textContent = "";
  try {
    await request("POST", "feeds", { url: $("feed-url").value });
    $("feed-url").value = "";
    await showFeeds();
  } catch (error) {
    $("feed-error").textContent = error.message;
  }
});

// A sign-in link has the token in its fragment, which browsers never send.
const linkToken = new URLSearchParams(location.hash.slice(1)).get("token");
if (linkToken) {
  token = linkToken;
  history.replaceState(null, "", location.pathname);
}
if (token) signIn().catch((error) => ($("sign-in-error").textContent = error.message));
setInterval(() => { if (token && !document.hidden) Promise.all([showSubscriptions(), showFeeds()]).catch(() => {}); }, 30000);
