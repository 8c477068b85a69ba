// One match as an element.

import { createElement } from "./dom.js";
import { createTime } from "./times.js";

const MAX_TEXT_CHARACTERS = 1200;
const MAX_TAGS = 8;

/**
 * @typedef {object} Match
 * @property {number} cursor
 * @property {string | null} title
 * @property {string | null} text
 * @property {string | null} link
 * @property {string | null} author
 * @property {string | null} time when the post was published
 * @property {string} arrived_at
 * @property {string[]} tags
 */

/**
 * Return the element of a match.
 * @param {Match} match
 * @param {boolean} isNew whether it arrived while the page was open
 * @returns {HTMLLIElement}
 */
export function createMatch(match, isNew) {
  const item = createElement("li", { className: isNew ? "fresh" : "", tabIndex: -1 });
  item.dataset.cursor = String(match.cursor);
  if (match.title) item.append(createElement("p", { className: "head", textContent: match.title, dir: "auto" }));
  const text = match.text ?? "";
  const shown = text.length > MAX_TEXT_CHARACTERS ? `${text.slice(0, MAX_TEXT_CHARACTERS)}…` : text;
  item.append(createElement("p", { className: "text", textContent: shown, dir: "auto" }), createDetails(match));
  return item;
}

/** @param {Match} match */
function createDetails(match) {
  const details = createElement("p", { className: "about" });
  const times = [createTime("published", match.time), createTime("found", match.arrived_at)];
  details.append(...times.filter((time) => time !== null));
  if (match.author) details.append(createElement("span", { textContent: match.author }));
  for (const tag of match.tags.slice(0, MAX_TAGS)) details.append(createElement("span", { textContent: `#${tag}` }));
  if (/^https?:\/\//i.test(match.link ?? "") && URL.canParse(match.link ?? "")) {
    const { href, hostname } = new URL(match.link ?? "");
    details.append(createElement("a", { href, textContent: hostname, rel: "noopener noreferrer nofollow", target: "_blank" }));
  }
  return details;
}
