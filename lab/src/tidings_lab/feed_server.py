"""``python -m tidings_lab.feed_server HOSTS``: any number of feeds on so many addresses of loopback; prints the port.

Real documents where they are (`feeds.zip`), else made up. Feed n shows document n, compressed, with an ETag.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
import zipfile
from hashlib import blake2b

from tidings_lab import datasets

ZIP = "feeds.zip"
_MADE = 50
_REQUEST = re.compile(rb"GET /\w+/(\d{1,9}) HTTP/1\.1\r\n")
_SMALL_BYTES = 200_000  # larger documents are rare, and would be all that is measured


def documents() -> list[bytes]:
    """Feeds in many formats."""
    folder = datasets.data_folder()
    if folder is None or not (folder / ZIP).is_file():
        return [_made(number) for number in range(_MADE)]
    with zipfile.ZipFile(folder / ZIP) as archive:
        return [archive.read(one) for one in archive.infolist() if one.file_size < _SMALL_BYTES]


def _made(number: int) -> bytes:
    items = "".join(
        f"<item><guid>{number}-{n}</guid><title>Article {n}</title><link>https://f{number}.example/{n}</link>"
        f"<description>{'What there is to say about it. ' * 20}</description></item>"
        for n in range(20)
    )
    head = f"<title>Feed {number}</title><link>https://f{number}.example/</link>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{head}{items}</channel></rss>'.encode()


class _Answering(asyncio.Protocol):
    """As little of HTTP/1.1 as a crawler needs: it is the crawler that is measured, on the same cores."""

    def __init__(self, answers: list[tuple[bytes, bytes, bytes]]) -> None:
        self._answers = answers
        self._asked = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        while b"\r\n\r\n" in self._asked:
            request, _, self._asked = self._asked.partition(b"\r\n\r\n")
            self._transport.write(self._answer(request))

    def _answer(self, request: bytes) -> bytes:
        found = _REQUEST.match(request)
        if found is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        etag, document, unchanged = self._answers[int(found[1]) % len(self._answers)]
        return unchanged if b"\r\nIf-None-Match: " + etag in request else document


def answers() -> list[tuple[bytes, bytes, bytes]]:
    """Of each document its ETag, the answer that brings it, and the one that says it is the same."""
    return [_answers(one) for one in documents()]


def _answers(document: bytes) -> tuple[bytes, bytes, bytes]:
    etag = f'"{blake2b(document, digest_size=8).hexdigest()}"'.encode()
    body = gzip.compress(document, 6)
    head = b"Content-Encoding: gzip\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n" % len(body)
    told = b"ETag: " + etag + b"\r\n"
    return (
        etag,
        b"HTTP/1.1 200 OK\r\n" + told + head + b"\r\n" + body,
        b"HTTP/1.1 304 Not Modified\r\n" + told + b"\r\n",
    )


def host(number: int) -> str:
    """The address of a host."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


async def _serve(hosts: int) -> None:
    known, loop, port = answers(), asyncio.get_running_loop(), 0
    for number in range(hosts):
        server = await loop.create_server(lambda: _Answering(known), host(number), port)
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
