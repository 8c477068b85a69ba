"""Gzip middleware that keeps the secret of a feed URL out of the compressed stream (BREACH).

An attacker who sees the length of responses and can put text into them could guess a secret that is compressed with
that text. A feed document contains its own secret URL. So the secret goes into an uncompressed block of its own, and
the parts around it are compressed independently.
"""

from __future__ import annotations

import re
import struct
import zlib

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COMPRESSED_PATHS = re.compile(
    r"/read/(?P<secret>[^/]+)/(?:rss|atom|json)|/api/subscriptions/\d+/matches|/api/opml|/|/static/.+"
)
_MIN_BYTES = 500
_LEVEL = 6
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # no name, no time, any system
_EMPTY_FINAL_BLOCK = b"\x03\x00"
_MAX_STORED_BYTES = 0xFFFF


class GzipMiddleware:
    """Compresses feeds, pages of matches, OPML and the static files, in plain ASGI; other responses pass unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        path = _COMPRESSED_PATHS.fullmatch(scope["path"]) if is_get else None
        if path is None:
            await self._app(scope, receive, send)
            return
        is_accepted = accepts_gzip(Headers(scope=scope).get("accept-encoding", ""))
        await self._app(scope, receive, _CompressedResponse(send, is_accepted, path["secret"] or "").send)


class _CompressedResponse:
    """One response. Its start is held back until the body arrives, which these responses send in one message."""

    def __init__(self, send: Send, is_accepted: bool, secret: str) -> None:
        self._send, self._is_accepted, self._secret = send, is_accepted, secret
        self._start: Message = {}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            MutableHeaders(raw=message["headers"]).add_vary_header("Accept-Encoding")
            return
        if self._start:
            start, self._start = self._start, {}
            body = message.get("body", b"")
            is_whole = start["status"] == 200 and not message.get("more_body")
            if self._is_accepted and is_whole and len(body) >= _MIN_BYTES:
                message["body"] = compressed = await run_in_threadpool(compress, body, self._secret.encode())
                MutableHeaders(raw=start["headers"]).update(
                    {"content-encoding": "gzip", "content-length": str(len(compressed))}
                )
            await self._send(start)
        await self._send(message)


def accepts_gzip(header: str) -> bool:
    """Return whether an `Accept-Encoding` header (RFC 9110) accepts gzip."""
    weights = {}
    for item in header.lower().split(","):
        name, _, parameters = item.partition(";")
        weights[name.strip()] = parameters.replace(" ", "")
    weight = weights.get("gzip", weights.get("x-gzip", weights.get("*")))
    return weight is not None and re.fullmatch(r"q=0(\.0*)?", weight) is None


def compress(body: bytes, secret: bytes = b"") -> bytes:
    """Return a document as gzip. Its length reveals nothing about the secret except its length."""
    parts = body.split(secret) if secret else [body]
    blocks = _stored_block(secret).join(_deflate(part) for part in parts)
    return _GZIP_HEADER + blocks + _EMPTY_FINAL_BLOCK + struct.pack("<II", zlib.crc32(body), len(body) & 0xFFFFFFFF)


def _deflate(part: bytes) -> bytes:
    """Return blocks that refer to no other part and end at a byte boundary."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(part) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _stored_block(part: bytes) -> bytes:
    """Return an uncompressed block."""
    assert len(part) <= _MAX_STORED_BYTES
    return b"\x00" + struct.pack("<HH", len(part), len(part) ^ _MAX_STORED_BYTES) + part
