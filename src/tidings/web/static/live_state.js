// The line that tells whether new matches can appear.

import { $, setText } from "./dom.js";

const CONNECTIONS = {
  connecting: ["waiting", "Connecting…"],
  offline: ["bad", "Offline: the server cannot be reached. Trying again…"],
};
const PHASES = {
  starting: ["waiting", "Starting: matches appear when the stream runs."],
  stopping: ["bad", "Stopping: the stream ends."],
  stopped: ["bad", "Stopped: the stream does not run, so there are no new matches."],
};

/**
 * Show the state. It is "Live" only if events arrive and the stream runs.
 * @param {import("./live.js").LiveState} state
 * @param {boolean} isGone whether the selected query was deleted
 */
export function showLiveState({ connection, phase }, isGone) {
  const [kind, text] = describe(connection, phase, isGone);
  $("live-state").dataset.state = kind;
  setText($("live-state"), text);
}

/**
 * @param {string} connection
 * @param {string} phase
 * @param {boolean} isGone
 */
function describe(connection, phase, isGone) {
  if (isGone) return ["bad", "This query was deleted. These are its last matches."];
  if (connection in CONNECTIONS) return CONNECTIONS[/** @type {keyof CONNECTIONS} */ (connection)];
  if (phase in PHASES) return PHASES[/** @type {keyof PHASES} */ (phase)];
  if (connection === "polling") return ["waiting", "Updated every 10 seconds"];
  return phase === "running" ? ["live", "Live"] : ["waiting", "Connected: this server does not run the stream."];
}
