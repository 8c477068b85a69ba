// The front page of Tidings. What posts say is only ever put into the page as text, never as markup.
"use strict";

const SHOWN = 200; // matches on the page; the feeds have more
const EXCERPT = 1200;
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("tidings-token") || "";
let subscriptions = [];
let chosen = null; // the id of the subscription whose matches are shown
let source = null; // its live events

// asking the server

async function ask(method, path, body) {
  const answer = await fetch(`api/${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body ? JSON.stringify(body) : undefined,
  });
  const told = answer.status === 204 ? null : await answer.json();
  if (answer.ok) return told;
  if (answer.status === 401) leave();
  throw Object.assign(new Error(told.error), { status: answer.status, position: told.position });
}

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function toast(sentence) {
  $("toast").textContent = sentence;
  $("toast").classList.add("shown");
  setTimeout(() => $("toast").classList.remove("shown"), 2500);
}

const reported = (task) => (...given) => task(...given).catch((error) => toast(error.message));

// coming and going

async function enter() {
  const me = await ask("GET", "me");
  sessionStorage.setItem("tidings-token", token);
  $("who-name").textContent = me.name;
  $("who").hidden = $("desk").hidden = false;
  $("gate").hidden = true;
  await Promise.all([showSubscriptions(), showFeeds()]);
  if (subscriptions.length) choose(subscriptions[subscriptions.length - 1].id);
  $("query").focus();
}

function leave() {
  sessionStorage.removeItem("tidings-token");
  token = "";
  listen(null);
  $("who").hidden = $("desk").hidden = true;
  $("gate").hidden = false;
}

$("gate-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("gate-error").textContent = "";
  try {
    await enter();
    $("token").value = "";
  } catch (error) {
    $("gate-error").textContent = error.status === 401 ? "This token is not known, or was revoked." : error.message;
  }
});
$("leave").addEventListener("click", leave);

// the query, judged as it is typed

let judging = 0;
let waiting = null;

function judge() {
  clearTimeout(waiting);
  $("subscribe").disabled = true;
  const query = $("query").value.trim();
  if (!query) return $("told").replaceChildren();
  waiting = setTimeout(async () => {
    const mine = ++judging;
    const told = await ask("POST", "check", { query }).catch((error) => error);
    if (mine !== judging || query !== $("query").value.trim()) return;
    $("subscribe").disabled = told instanceof Error;
    $("told").replaceChildren(...(told instanceof Error ? refusal(query, told) : understanding(told)));
  }, 180);
}

function refusal(query, error) {
  const parts = [make("span", { className: "error", textContent: error.message })];
  if (error.position !== undefined) {
    const start = Math.max(0, error.position - 40);
    parts.push(make("span", { className: "caret", textContent: `${query.slice(start, start + 80)}\n${" ".repeat(error.position - start)}^` }));
  }
  return parts;
}

function understanding(told) {
  const ways = told.ways.slice(0, 12).map((way) => make("span", { className: "way", textContent: way.text }));
  if (told.ways.length > 12) ways.push(`and ${told.ways.length - 12} more `);
  const ignored = told.ignored.length ? ` Ignored: ${told.ignored.map((one) => one.piece).join(", ")}.` : "";
  return [...ways, make("span", { className: "estimate", textContent: `${estimate(told)}${ignored}` })];
}

function estimate(told) {
  if (told.matches_a_day === null) return "No posts have come yet to estimate from.";
  if (told.history_hours < 1) {
    const share = told.posts_a_day ? told.matches_a_day / told.posts_a_day : 0;
    return `About ${(100 * share).toFixed(share < 0.1 ? 1 : 0)} % of the few posts that came so far.`;
  }
  const count = told.matches_a_day;
  const shown = count >= 10 ? Math.round(count).toLocaleString() : count >= 0.05 ? count.toFixed(1) : "hardly any";
  const past = told.history_hours >= 48 ? `${Math.round(told.history_hours / 24)} days` : `${Math.max(1, Math.round(told.history_hours))} h`;
  return `About ${shown} a day, judging by ${told.sampled_posts.toLocaleString()} posts of the last ${past}.`;
}

$("query").addEventListener("input", judge);
$("ask-form").addEventListener("submit", reported(async (event) => {
  event.preventDefault();
  const query = $("query").value.trim();
  if (!query || $("subscribe").disabled) return;
  const made = await ask("POST", "subscriptions", { query });
  $("query").value = "";
  judge();
  await showSubscriptions();
  choose(made.id);
}));

// the list of queries

async function showSubscriptions() {
  subscriptions = [];
  let after = 0;
  do {
    const page = await ask("GET", `subscriptions?limit=1000&after=${after}`);
    subscriptions.push(...page.subscriptions);
    after = page.next;
  } while (after !== null);
  $("none").hidden = subscriptions.length > 0;
  $("subscriptions").replaceChildren(...subscriptions.map((one) => {
    const count = make("span", { className: "count", textContent: one.matches.toLocaleString() });
    const what = make("span", { className: "what", textContent: one.query, title: one.query });
    const button = make("button", { type: "button", className: "pick" }, what, count);
    button.dataset.id = one.id;
    button.setAttribute("aria-current", String(one.id === chosen));
    button.addEventListener("click", () => choose(one.id));
    return make("li", {}, button);
  }));
}

// the matches of one query, live

function choose(id) {
  const one = subscriptions.find((found) => found.id === id);
  chosen = one ? id : null;
  $("chosen").hidden = !one;
  for (const button of document.querySelectorAll(".pick")) button.setAttribute("aria-current", String(button.dataset.id === String(chosen)));
  if (!one) return listen(null);
  $("chosen-query").textContent = one.query;
  $("addresses").replaceChildren(...["rss", "atom", "json"].map((kind) => copier(kind, one.addresses[kind])));
  listen(one);
}

function copier(kind, address) {
  const names = { rss: "RSS", atom: "Atom", json: "JSON Feed" };
  const button = make("button", { type: "button", className: "quiet", textContent: `Copy ${names[kind]} address`, title: address });
  button.addEventListener("click", reported(async () => {
    if (!navigator.clipboard) return prompt("Copy this address:", address); // browsers have it with https only
    await navigator.clipboard.writeText(address);
    toast("Copied: give it to your feed reader.");
  }));
  return button;
}

function listen(one) {
  source?.close();
  source = null;
  light(false);
  $("matches").replaceChildren();
  $("waiting").hidden = false;
  if (!one) return;
  const secret = one.addresses.live.split("/").slice(-2)[0];
  const mine = (source = new EventSource(`read/${secret}/live?last=50`));
  const began = Date.now();
  mine.addEventListener("open", () => light(true));
  mine.addEventListener("error", () => light(false));
  mine.addEventListener("gone", () => mine.close());
  mine.addEventListener("match", (event) => {
    if (mine === source) showMatch(JSON.parse(event.data), Date.now() - began > 1500);
  });
}

function light(on) {
  $("live").classList.toggle("on", on);
  $("live").title = on ? "live" : "not connected";
}

function showMatch(match, isFresh) {
  $("waiting").hidden = true;
  const about = make("p", { className: "about" });
  const when = new Date(match.arrived_at);
  about.append(make("time", { dateTime: match.arrived_at, textContent: when.toLocaleString() }));
  if (match.author) about.append(make("span", { textContent: match.author }));
  for (const tag of match.tags.slice(0, 8)) about.append(make("span", { textContent: `#${tag}` }));
  if (/^https?:\/\//i.test(match.link || "") && URL.canParse(match.link)) {
    about.append(make("a", { href: match.link, textContent: new URL(match.link).hostname, rel: "noopener noreferrer nofollow", target: "_blank" }));
  }
  const text = match.text || "";
  const item = make("li", { className: isFresh ? "fresh" : "" });
  if (match.title) item.append(make("p", { className: "head", textContent: match.title, dir: "auto" }));
  item.append(make("p", { className: "text", textContent: text.length > EXCERPT ? `${text.slice(0, EXCERPT)}…` : text, dir: "auto" }), about);
  $("matches").prepend(item);
  while ($("matches").children.length > SHOWN) $("matches").lastChild.remove();
}

$("renew").addEventListener("click", reported(async () => {
  if (!confirm("Feed readers that use the addresses of now will find nothing there any more. Make new ones?")) return;
  await ask("POST", `subscriptions/${chosen}/address`);
  await showSubscriptions();
  choose(chosen);
}));
$("delete").addEventListener("click", reported(async () => {
  if (!confirm("Delete this query with all its matches?")) return;
  await ask("DELETE", `subscriptions/${chosen}`);
  await showSubscriptions();
  choose(subscriptions.length ? subscriptions[0].id : null);
}));

// feeds

async function showFeeds() {
  const { feeds } = await ask("GET", "feeds");
  $("feeds").replaceChildren(...feeds.map((feed) => {
    const name = make("span", { className: "name", textContent: feed.title || feed.url, title: feed.url });
    const state = make("span", { className: `state ${feed.state}`, textContent: feed.state, title: feed.error });
    const remove = make("button", { type: "button", className: "link", textContent: "remove" });
    remove.addEventListener("click", reported(async () => {
      await ask("DELETE", `feeds/${feed.id}`);
      await showFeeds();
    }));
    return make("li", {}, name, state, remove);
  }));
}

$("feed-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("feed-error").textContent = "";
  try {
    await ask("POST", "feeds", { url: $("feed-url").value });
    $("feed-url").value = "";
    await showFeeds();
  } catch (error) {
    $("feed-error").textContent = error.message;
  }
});

// who arrives by a link brings the token in its fragment, which is never sent anywhere
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  token = given;
  history.replaceState(null, "", location.pathname);
}
if (token) enter().catch((error) => ($("gate-error").textContent = error.message));
setInterval(() => { if (token && !document.hidden) Promise.all([showSubscriptions(), showFeeds()]).catch(() => {}); }, 30000);
