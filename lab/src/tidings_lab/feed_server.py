"""`python -m tidings_lab.feed_server HOSTS`: serve any number of feeds on loopback addresses; prints the port.

Serves the real documents if present (`feeds.zip`), otherwise generated ones. Feed n is document n, compressed, with an
ETag.
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
_GENERATED = 50
_REQUEST = re.compile(rb"GET /\w+/(\d{1,9}) HTTP/1\.1\r\n")
_SMALL_BYTES = 200_000  # larger documents are rare and would dominate the measurement


def load_documents() -> list[bytes]:
    """Return feed documents in many formats."""
    folder = datasets.data_folder()
    if folder is None or not (folder / ZIP).is_file():
        return [_generate(number) for number in range(_GENERATED)]
    with zipfile.ZipFile(folder / ZIP) as archive:
        return [archive.read(entry) for entry in archive.infolist() if entry.file_size < _SMALL_BYTES]


def _generate(number: int) -> bytes:
    items = "".join(
        f"<item><guid>{number}-{n}</guid><title>Article {n}</title><link>https://f{number}.example/{n}</link>"
        f"<description>{'What there is to say about it. ' * 20}</description></item>"
        for n in range(20)
    )
    head = f"<title>Feed {number}</title><link>https://f{number}.example/</link>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{head}{items}</channel></rss>'.encode()


class _FeedProtocol(asyncio.Protocol):
    """Minimal HTTP/1.1, because the measured crawler runs on the same cores."""

    def __init__(self, responses: list[tuple[bytes, bytes, bytes]]) -> None:
        self._responses = responses
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            request, _, self._received = self._received.partition(b"\r\n\r\n")
            self._transport.write(self._answer(request))

    def _answer(self, request: bytes) -> bytes:
        request_line = _REQUEST.match(request)
        if request_line is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        etag, document, unchanged = self._responses[int(request_line[1]) % len(self._responses)]
        return unchanged if b"\r\nIf-None-Match: " + etag in request else document


def load_responses() -> list[tuple[bytes, bytes, bytes]]:
    """Return ETag, response 200 and response 304 of each document."""
    return [_responses(document) for document in load_documents()]


def _responses(document: bytes) -> tuple[bytes, bytes, bytes]:
    etag = f'"{blake2b(document, digest_size=8).hexdigest()}"'.encode()
    body = gzip.compress(document, 6)
    head = b"Content-Encoding: gzip\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n" % len(body)
    etag_header = b"ETag: " + etag + b"\r\n"
    return (
        etag,
        b"HTTP/1.1 200 OK\r\n" + etag_header + head + b"\r\n" + body,
        b"HTTP/1.1 304 Not Modified\r\n" + etag_header + b"\r\n",
    )


def host_address(number: int) -> str:
    """Return the loopback address of a host."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


async def _serve(hosts: int) -> None:
    responses, loop, port = load_responses(), asyncio.get_running_loop(), 0
    for number in range(hosts):
        server = await loop.create_server(lambda: _FeedProtocol(responses), host_address(number), port)
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
