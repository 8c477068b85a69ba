"""Feeds, pages of matches, lists and the page itself go out compressed to who accepts that, their secret apart.

What strangers wrote and a secret must not be compressed together: who sees how long an answer is, and can have text of
theirs in it, could guess the secret piece by piece (BREACH). The document of a feed holds its own secret address. So
the secret goes as it is, in a block of its own, and nothing before it is known to what compresses the rest.
"""

from __future__ import annotations

import re
import struct
import zlib

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PACKED = re.compile(r"/read/(?P<secret>[^/]+)/(?:rss|atom|json)|/api/subscriptions/\d+/matches|/api/opml|/|/static/.+")
_SMALL_BYTES = 500  # not worth it
_LEVEL = 6
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # gzip, no name, no time, any system
_LAST = b"\x03\x00"  # an empty block that is the last
_MOST_STORED = 0xFFFF


class Packed:
    """In front of the app, in plain ASGI; all but those answers pass untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = scope["type"] == "http" and scope["method"] == "GET"
        found = _PACKED.fullmatch(scope["path"]) if wanted else None
        if found is None:
            await self._app(scope, receive, send)
            return
        accepted = accepts_gzip(Headers(scope=scope).get("accept-encoding", ""))
        await self._app(scope, receive, _Answer(send, accepted, found["secret"] or "").send)


class _Answer:
    """One answer on its way out: held back until it is known whole, which these are at once."""

    def __init__(self, send: Send, accepted: bool, secret: str) -> None:
        self._send, self._accepted, self._secret = send, accepted, secret
        self._start: Message = {}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            MutableHeaders(raw=message["headers"]).add_vary_header("Accept-Encoding")
            return
        if self._start:
            start, self._start = self._start, {}
            body = message.get("body", b"")
            if self._accepted and start["status"] == 200 and len(body) >= _SMALL_BYTES and not message.get("more_body"):
                message["body"] = packed = await run_in_threadpool(gzipped, body, self._secret.encode())
                MutableHeaders(raw=start["headers"]).update(
                    {"content-encoding": "gzip", "content-length": str(len(packed))}
                )
            await self._send(start)
        await self._send(message)


def accepts_gzip(header: str) -> bool:
    """Whether a reader that sends this `Accept-Encoding` takes gzip: RFC 9110."""
    weights = {}
    for one in header.lower().split(","):
        name, _, parameters = one.partition(";")
        weights[name.strip()] = parameters.replace(" ", "")
    told = weights.get("gzip", weights.get("x-gzip", weights.get("*")))
    return told is not None and re.fullmatch(r"q=0(\.0*)?", told) is None


def gzipped(body: bytes, secret: bytes = b"") -> bytes:
    """The document as gzip. How long it is tells nothing about the secret but its length."""
    pieces = body.split(secret) if secret else [body]
    apart = _stored(secret)
    blocks = apart.join(_deflated(piece) for piece in pieces)
    return _HEAD + blocks + _LAST + struct.pack("<II", zlib.crc32(body), len(body) & 0xFFFFFFFF)


def _deflated(piece: bytes) -> bytes:
    """Blocks that know nothing of others, and end at a whole byte."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _stored(piece: bytes) -> bytes:
    """A block as it is."""
    assert len(piece) <= _MOST_STORED
    return b"\x00" + struct.pack("<HH", len(piece), len(piece) ^ _MOST_STORED) + piece
