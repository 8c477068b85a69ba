// Times as people say them: "3 days ago".

const UNITS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["week", 7 * 86_400],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
]);
const FORMAT = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const EARLIEST_MS = Date.UTC(1970, 0, 2); // a time of 0 means that it is not known

/**
 * Return an element that shows how long ago a time is; null if it is missing or not a time.
 * @param {string} label
 * @param {string | null} text
 */
export function createTime(label, text) {
  const ms = Date.parse(text ?? "");
  if (!(ms >= EARLIEST_MS)) return null;
  const element = document.createElement("time");
  element.dateTime = new Date(ms).toISOString();
  element.title = `${label} ${new Date(ms).toLocaleString()}`;
  element.dataset.label = label;
  showAge(element);
  return element;
}

/**
 * Update the times in an element.
 * @param {Element} root
 */
export function updateTimes(root) {
  for (const element of root.querySelectorAll("time")) showAge(element);
}

/** @param {HTMLTimeElement} element */
function showAge(element) {
  const text = `${element.dataset.label} ${formatAge(Date.parse(element.dateTime))}`;
  if (element.textContent !== text) element.textContent = text;
}

/** @param {number} ms */
function formatAge(ms) {
  const ageS = (Date.now() - ms) / 1_000;
  if (ageS < -60) return new Date(ms).toLocaleString(); // a clock is wrong, or an event is announced
  if (ageS < 60) return "just now";
  const [unit, lengthS] = UNITS.find(([, seconds]) => ageS >= seconds) ?? UNITS[UNITS.length - 1];
  return FORMAT.format(-Math.floor(ageS / lengthS), unit);
}
