"""Servers on loopback that answer as they are told, and a crawler that may reach them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from email.utils import formatdate

from tidings.crawl.crawler import Crawler, Manners
from tidings.crawl.decide import Asked, Memory
from tidings.crawl.fetch import Limits
from tidings.crawl.identity import unpacked
from tidings.crawl.parser_process import Parser
from tidings.crawl.rate_limit import Politeness
from tidings.net.allowlist import LOOPBACK, Allowed

BEGIN = 1_790_000_000.0
MANNERS = Manners(politeness=Politeness(between_s=0.0), limits=Limits(seconds=1.5), allow=Allowed(LOOPBACK))


def rss(*items: str, head: str = "", title: str = "A feed") -> bytes:
    """A document of RSS with these items; a bare word is an item with that guid."""
    listed = "".join(one if one.startswith("<") else item(one) for one in items)
    top = f"<title>{title}</title><link>https://site.example/</link>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{top}{head}{listed}</channel></rss>'.encode()


def item(guid: str, title: str = "", date: float | None = None, text: str = "") -> str:
    dated = "" if date is None else f"<pubDate>{formatdate(date)}</pubDate>"
    told = f"<title>{title or 'About ' + guid}</title><link>https://site.example/{guid}</link>{dated}"
    return f"<item><guid>{guid}</guid>{told}<description>{text or 'All of ' + guid}</description></item>"


def answer(status: str = "200 OK", body: bytes = b"", **headers: str) -> bytes:
    """Bytes of HTTP."""
    told = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


@asynccontextmanager
async def serving(handler, host: str = "127.0.0.1"):
    """A server whose handler is given the request's head and a writer, or the bytes it always answers; its address."""

    async def connected(reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            if callable(handler):
                await handler(head, writer)
            else:
                writer.write(handler)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def visited(asked, manners=MANNERS, now=BEGIN, parser=None):
    """What visits lead to, by feed."""
    made = parser or Parser()
    try:
        crawler = Crawler(manners, [made], lambda: now)
        return {one.visited.feed: one async for one in crawler.visit_all(asked)}
    finally:
        if parser is None:
            made.close()


def feed(url: str, number: int = 1) -> Asked:
    return Asked(number, url, Memory())


def again(asked: Asked, outcome) -> Asked:
    """The feed as it is known after a visit."""
    known = asked.known if outcome.visited.known is None else unpacked(outcome.visited.known)
    return replace(asked, url=outcome.visited.url, memory=Memory.from_json(outcome.visited.visit), known=known)
