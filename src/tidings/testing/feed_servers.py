"""Scripted feed servers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

Handler = Callable[[str, asyncio.StreamWriter], Awaitable[None]] | bytes
"""What a server does: a coroutine function that gets the request head and writes, or the response."""


def rss(*items: str, head: str = "", title: str = "A feed") -> bytes:
    """Return an RSS document with these items; a bare word is an item with that guid."""
    listed = "".join(one if one.startswith("<") else item(one) for one in items)
    top = f"<title>{title}</title><link>https://site.example/</link>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{top}{head}{listed}</channel></rss>'.encode()


def item(guid: str, title: str = "", date: float | None = None, text: str = "") -> str:
    """Return an RSS item."""
    dated = "" if date is None else f"<pubDate>{formatdate(date)}</pubDate>"
    top = f"<title>{title or 'About ' + guid}</title><link>https://site.example/{guid}</link>{dated}"
    return f"<item><guid>{guid}</guid>{top}<description>{text or 'All of ' + guid}</description></item>"


def answer(status: str = "200 OK", body: bytes = b"", **headers: str) -> bytes:
    """Return an HTTP response."""
    sent = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


@asynccontextmanager
async def http_server(handler: Handler, *hosts: str) -> AsyncIterator[str]:
    """Run a server and yield its URL at the first host, by default 127.0.0.1."""
    async with http_servers(handler, *(hosts or ("127.0.0.1",))) as urls:
        yield urls[0]


@asynccontextmanager
async def http_servers(handler: Handler, *hosts: str) -> AsyncIterator[list[str]]:
    """Run the same server at several loopback addresses and yield the URL of each."""

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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

    server = await asyncio.start_server(handle_connection, hosts, 0)
    try:
        yield [f"http://{host}:{port}" for host, port, *_ in (socket.getsockname() for socket in server.sockets)]
    finally:
        server.close()
