"""Feed servers that try to stop a crawler, and good ones next to them.

``with running_servers(good=40, hostile={"tarpit": 4}) as urls`` runs them in a process of their own, each at a loopback
address of its own, and returns their URLs by kind.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager

from tidings.testing.feed_servers import Handler, answer, http_servers, rss

GOOD = "good"
_DRIP_S = 0.2
_FLOOD = 5_000  # repetitions per write


async def never_answer(head: str, writer: asyncio.StreamWriter) -> None:
    """Accept the request and do nothing."""
    await asyncio.Event().wait()


async def drip_headers(head: str, writer: asyncio.StreamWriter) -> None:
    """Send the headers one byte at a time."""
    await _drip(writer, b"HTTP/1.1 200 OK\r\n" + b"X-Wait: yes\r\n" * 1_000)


async def drip_body(head: str, writer: asyncio.StreamWriter) -> None:
    """Send the document one byte at a time."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n")
    await _drip(writer, b" " * 10_000)


async def repeat_interim_responses(head: str, writer: asyncio.StreamWriter) -> None:
    """Send interim responses (103) without an end."""
    await _flood(writer, b"HTTP/1.1 103 Early Hints\r\n\r\n")


async def send_tiny_chunks(head: str, writer: asyncio.StreamWriter) -> None:
    """Send chunks of one byte without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await _flood(writer, b"1\r\n \r\n")


async def send_endless_body(head: str, writer: asyncio.StreamWriter) -> None:
    """Send a document without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n")
    await _flood(writer, b"<item>")


async def send_endless_headers(head: str, writer: asyncio.StreamWriter) -> None:
    """Send headers without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await _flood(writer, b"X-More: to come\r\n")


async def redirect_forever(head: str, writer: asyncio.StreamWriter) -> None:
    """Redirect to another URL of this server."""
    writer.write(answer("302 Found", Location=head.split()[1] + "x"))


def zip_bomb(megabytes: int) -> bytes:
    """Return zeros, compressed with gzip."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packer.compress(bytes(1_000_000)) for _ in range(megabytes)]) + packer.flush()


def expensive_document() -> bytes:
    """Return a broken feed below all size limits, for which a parser needs more than its CPU time."""
    return b'<rss version="2.0"><channel><title>x</title>' + b"<item><title>a & b<br></title><x>" * 90_000


def hostile_handlers() -> dict[str, Handler]:
    """Return the hostile servers by name."""
    return {
        "tarpit": never_answer,
        "slow headers": drip_headers,
        "slow body": drip_body,
        "interim responses": repeat_interim_responses,
        "tiny chunks": send_tiny_chunks,
        "endless body": send_endless_body,
        "endless headers": send_endless_headers,
        "redirects": redirect_forever,
        "bomb": answer(body=zip_bomb(200), Content_Encoding="gzip"),
        "expensive": answer(body=gzip.compress(expensive_document()), Content_Encoding="gzip"),
    }


SLOW_KINDS = ("tarpit", "slow headers", "slow body", "expensive")
"""Kinds that take time; the others exceed a limit at once."""


async def _drip(writer: asyncio.StreamWriter, text: bytes) -> None:
    for byte in text:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(_DRIP_S)


async def _flood(writer: asyncio.StreamWriter, text: bytes) -> None:
    while True:
        writer.write(text * _FLOOD)
        await writer.drain()


async def send_good_feed(head: str, writer: asyncio.StreamWriter) -> None:
    """Send a feed with two articles."""
    name = head.partition("Host: ")[2].split()[0]
    writer.write(answer(body=rss(f"{name}/1", f"{name}/2"), ETag='"1"'))


@contextmanager
def running_servers(good: int, hostile: Mapping[str, int]) -> Iterator[dict[str, list[str]]]:
    """Run servers in another process; yield the URLs of each kind."""
    command = [sys.executable, "-m", "tidings.testing.hostile_servers", json.dumps({GOOD: good, **hostile})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


async def serve(counts: Mapping[str, int]) -> None:
    """Run so many servers of each kind, print their URLs as JSON, and wait until standard input is closed."""
    handlers, first = {GOOD: send_good_feed, **hostile_handlers()}, 0
    async with AsyncExitStack() as stack:
        urls = {}
        for kind, count in counts.items():
            hosts = [f"127.2.{number // 250}.{number % 250 + 1}" for number in range(first, first + count)]
            urls[kind] = await stack.enter_async_context(http_servers(handlers[kind], *hosts)) if hosts else []
            first += count
        print(json.dumps(urls), flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
