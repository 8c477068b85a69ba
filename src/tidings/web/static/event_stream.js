// Server-sent events over fetch, which can send the token in a header; EventSource cannot.

/**
 * Yield the events of a response. Throws if nothing arrives for `silenceMs`: the connection is lost.
 * @param {ReadableStream<Uint8Array>} body
 * @param {number} silenceMs longer than the pauses between pings of the server
 * @returns {AsyncGenerator<{name: string, data: string}>}
 */
export async function* readEvents(body, silenceMs) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await withTimeout(reader.read(), silenceMs);
      if (done) return;
      const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Return the event of a block of lines; null for comments and pings.
 * @param {string} block
 */
function parseEvent(block) {
  let name = "";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^([a-z]*): ?(.*)$/.exec(line) ?? [];
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return name ? { name, data: data.join("\n") } : null;
}

/**
 * @template Value
 * @param {Promise<Value>} promise
 * @param {number} ms
 * @returns {Promise<Value>}
 */
function withTimeout(promise, ms) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("silent")), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
