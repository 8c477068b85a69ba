// Questions before something is deleted. The safe answer has the focus.

import { $ } from "./dom.js";

/**
 * Ask a question and return whether it was accepted. The element that had the focus gets it back.
 * @param {string} question
 * @param {string} acceptLabel
 * @returns {Promise<boolean>}
 */
export function confirmAction(question, acceptLabel) {
  const dialog = $("confirmation");
  const accept = $("confirmation-accept");
  $("confirmation-question").textContent = question;
  accept.textContent = acceptLabel;
  dialog.returnValue = "";
  accept.onclick = () => dialog.close("accepted");
  $("confirmation-cancel").onclick = () => dialog.close();
  dialog.showModal();
  $("confirmation-cancel").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "accepted"), { once: true });
  });
}

/** Make a key that is held down press a button once: repeats would answer the next question too. */
export function ignoreRepeatedKeys() {
  const isPress = (/** @type {KeyboardEvent} */ event) => event.key === "Enter" || event.key === " ";
  const ignore = (/** @type {KeyboardEvent} */ event) => {
    if (event.repeat && isPress(event) && event.target instanceof HTMLButtonElement) event.preventDefault();
  };
  document.addEventListener("keydown", ignore, { capture: true });
}
