"""Scripted servers on loopback, and a crawler that may reach them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from email.utils import formatdate

from tidings.crawl.crawler import Crawler, CrawlOptions
from tidings.crawl.decide import FeedVisit, VisitMemory
from tidings.crawl.fetch import FetchLimits
from tidings.crawl.identity import unpack_known
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostRateLimit
from tidings.net.allowlist import LOOPBACK, AllowedNetworks

BEGIN = 1_790_000_000.0
OPTIONS = CrawlOptions(
    rate_limit=HostRateLimit(min_interval_s=0.0), limits=FetchLimits(seconds=1.5), allow=AllowedNetworks(LOOPBACK)
)


def rss(*items: str, head: str = "", title: str = "A feed") -> bytes:
    """Return an RSS document with these items; a bare word is an item with that guid."""
    listed = "".join(one if one.startswith("<") else item(one) for one in items)
    top = f"<title>{title}</title><link>https://site.example/</link>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{top}{head}{listed}</channel></rss>'.encode()


def item(guid: str, title: str = "", date: float | None = None, text: str = "") -> str:
    dated = "" if date is None else f"<pubDate>{formatdate(date)}</pubDate>"
    told = f"<title>{title or 'About ' + guid}</title><link>https://site.example/{guid}</link>{dated}"
    return f"<item><guid>{guid}</guid>{told}<description>{text or 'All of ' + guid}</description></item>"


def answer(status: str = "200 OK", body: bytes = b"", **headers: str) -> bytes:
    """Return an HTTP response."""
    told = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


@asynccontextmanager
async def http_server(handler, host: str = "127.0.0.1"):
    """Run a server and yield its URL; `handler` gets the request head and a writer, or is the response."""

    async def handle_connection(reader, writer):
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

    server = await asyncio.start_server(handle_connection, host, 0)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def visit_all(feeds, options=OPTIONS, now=BEGIN, parser=None):
    """Return the outcome of a visit by feed."""
    process = parser or ParserProcess()
    try:
        crawler = Crawler(options, [process], lambda: now)
        return {outcome.visited.feed: outcome async for outcome in crawler.visit_all(feeds)}
    finally:
        if parser is None:
            process.close()


def feed(url: str, number: int = 1) -> FeedVisit:
    return FeedVisit(number, url, VisitMemory())


def after_visit(visit: FeedVisit, outcome) -> FeedVisit:
    """Return the feed with its state after a visit."""
    known = visit.known if outcome.visited.known is None else unpack_known(outcome.visited.known)
    return replace(visit, url=outcome.visited.url, memory=VisitMemory.from_json(outcome.visited.visit), known=known)
