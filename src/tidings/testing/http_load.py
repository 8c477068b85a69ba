"""Hostile HTTP clients, and a probe that measures how long a well-behaved client waits meanwhile.

All clients write to plain sockets, because HTTP libraries refuse to send what these send. They are coroutines, so that
one process runs an attack and a probe at once: ``attack = asyncio.create_task(post_bodies(...))``, then
``await probe_latency(...)``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_CONNECT_S, _ANSWER_S = 30.0, 120.0
_WRITE_BYTES = 1 << 16
_CONNECTS_AT_ONCE = 100
_SUCCESS = (200, 201, 202, 204)

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HeaderFlood(NamedTuple):
    """How many bytes of headers a server accepted, and its status; None if it closed without one."""

    sent_bytes: int
    status: int | None


async def open_connection(url: str) -> Connection:
    """Connect to the host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    return await asyncio.wait_for(asyncio.open_connection(parts.hostname, parts.port or 80), _CONNECT_S)


async def read_status(reader: asyncio.StreamReader) -> int | None:
    """Return the status of the next response; None if the server closed the connection."""
    with suppress(ConnectionError, TimeoutError, IndexError, ValueError):
        return int((await asyncio.wait_for(reader.readline(), _ANSWER_S)).split()[1])
    return None


def encode_request(method: str, path: str, token: str | None, body: bytes = b"") -> bytes:
    """Return a request for one connection."""
    lines = [f"{method} {path} HTTP/1.1", "Host: load.test", "Connection: close"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


async def request_status(url: str, path: str, token: str | None, method: str = "GET", body: bytes = b"") -> int | None:
    """Send one request on a connection of its own and return the status."""
    reader, writer = await open_connection(url)
    try:
        with suppress(ConnectionError):  # the server may answer before it has read the body
            writer.write(encode_request(method, path, token, body))
            await writer.drain()
        return await read_status(reader)
    finally:
        writer.transport.abort()


async def post_json(url: str, path: str, token: str, document: object) -> Any:
    """Send a JSON document and return that of the response. Raises ValueError if it has none."""
    reader, writer = await open_connection(url)
    try:
        writer.write(encode_request("POST", path, token, json.dumps(document).encode()))
        _, _, body = (await asyncio.wait_for(reader.read(), _ANSWER_S)).partition(b"\r\n\r\n")
        return json.loads(body)
    finally:
        writer.transport.abort()


async def probe_latency(
    url: str, token: str, seconds: float, path: str = "/api/me", method: str = "GET", body: bytes = b""
) -> list[float]:
    """Return the seconds that each of a sequence of requests took, until the time is over."""
    latencies_s, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        status = await request_status(url, path, token, method, body)
        assert status in _SUCCESS, f"{path}: the probe got {status}"
        latencies_s.append(time.monotonic() - started)
        await asyncio.sleep(0.01)
    return latencies_s


def percentile(latencies_s: Sequence[float], fraction: float = 0.99) -> float:
    """Return the latency that this fraction of the requests did not exceed."""
    return sorted(latencies_s)[min(int(len(latencies_s) * fraction), len(latencies_s) - 1)]


@asynccontextmanager
async def half_open_requests(
    url: str, count: int, start: bytes = b"POST /api/posts HTTP/1.1\r\nHost: load.test\r\nX-Slow: "
) -> AsyncIterator[list[Connection]]:
    """Hold connections on which only the start of a request was sent."""
    gate = asyncio.Semaphore(_CONNECTS_AT_ONCE)

    async def begin() -> Connection:
        async with gate:
            reader, writer = await open_connection(url)
        writer.write(start)
        return reader, writer

    opened = await asyncio.gather(*(begin() for _ in range(count)))
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def count_closed(connections: Sequence[Connection], seconds: float) -> int:
    """Return how many connections the server closes within a time."""
    waits = [asyncio.create_task(_read_to_end(reader)) for reader, _ in connections]
    done, pending = await asyncio.wait(waits, timeout=seconds)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return len(done)


async def _read_to_end(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(_WRITE_BYTES):
            pass


async def send_huge_headers(url: str, total_bytes: int) -> HeaderFlood:
    """Send headers without an end until the server responds or closes, or `total_bytes` are sent."""
    reader, writer = await open_connection(url)
    header = b"X-Large: " + b"a" * (_WRITE_BYTES // 2) + b"\r\n"
    sent_bytes = 0
    writer.write(b"GET / HTTP/1.1\r\nHost: load.test\r\n")
    status = asyncio.create_task(read_status(reader))
    try:
        with suppress(ConnectionError):
            while sent_bytes < total_bytes and not status.done():
                writer.write(header)
                await writer.drain()
                await asyncio.sleep(0)  # let the status be read
                sent_bytes += len(header)
        return HeaderFlood(sent_bytes, await status if sent_bytes < total_bytes else None)
    finally:
        status.cancel()
        writer.transport.abort()


async def post_bodies(url: str, path: str, body: bytes, count: int, token: str | None = None) -> list[int | None]:
    """Send the same body on `count` connections at once; without a token these are unauthenticated requests."""
    return list(await asyncio.gather(*(request_status(url, path, token, "POST", body) for _ in range(count))))


def empty_lists(size_bytes: int) -> bytes:
    """Return JSON with as many values as fit: `[[],[],…]`."""
    return b"[" + b"[]," * ((size_bytes - 4) // 3) + b"[]]"


def unknown_keys(size_bytes: int) -> bytes:
    """Return a JSON object of keys that no model has."""
    return b"{" + b",".join(b'"k%07d":1' % number for number in range((size_bytes - 1) // 13)) + b"}"


def empty_elements(size_bytes: int) -> bytes:
    """Return an OPML document of elements without meaning."""
    return b"<opml>" + b"<o/>" * ((size_bytes - 13) // 4) + b"</opml>"
