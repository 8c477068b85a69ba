// Elements of the page. Text of posts is inserted only as text, never as markup.

/**
 * Return the element with an id.
 * @param {string} id
 * @returns {any}
 */
export const $ = (id) => document.getElementById(id);

/**
 * Create an element.
 * @param {string} tag
 * @param {object} [properties]
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function createElement(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/**
 * Set the text of an element if it differs: a change ends a selection and is read out by screen readers.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make the children of a list show these items. Elements of known items stay, so they keep focus and selection.
 * @template Item
 * @param {Element} list
 * @param {Item[]} items in an order that never changes
 * @param {(item: Item) => string | number} getKey
 * @param {(item: Item) => HTMLElement} create
 * @param {(element: any, item: Item) => void} update
 * @param {HTMLElement} fallback gets the focus if the element that had it is removed
 */
export function updateList(list, items, getKey, create, update, fallback) {
  const hadFocus = list.contains(document.activeElement);
  const keys = new Set(items.map((item) => String(getKey(item))));
  const known = new Map();
  for (const child of /** @type {HTMLElement[]} */ ([...list.children])) {
    if (keys.has(child.dataset.key ?? "")) known.set(child.dataset.key, child);
    else child.remove();
  }
  let next = list.firstElementChild;
  for (const item of items) {
    const key = String(getKey(item));
    const element = known.get(key) ?? create(item);
    element.dataset.key = key;
    update(element, item);
    if (element === next) next = element.nextElementSibling;
    else list.insertBefore(element, next);
  }
  if (hadFocus && !list.contains(document.activeElement)) fallback.focus();
}
