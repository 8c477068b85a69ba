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
  return new Promise((resolve) => {
    // Not the event `close`: it comes late, and would answer a question that was asked meanwhile.
    const answer = (/** @type {boolean} */ accepted) => {
      dialog.close();
      resolve(accepted);
    };
    accept.onclick = () => answer(true);
    $("confirmation-cancel").onclick = () => answer(false);
    dialog.oncancel = () => answer(false); // Escape
    dialog.showModal();
    $("confirmation-cancel").focus();
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
