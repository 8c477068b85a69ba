"""One document from one address, whatever its server does: bounded in bytes, seconds and redirects."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from time import monotonic
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from tidings.crawl.rate_limit import Gate
from tidings.errors import InputError
from tidings.net.ssrf_guard import refusal
from tidings.net.urls import checked_url

ACCEPT = "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, text/xml, */*;q=0.5"
_MOVED, _MOVED_FOR_GOOD = {301, 302, 303, 307, 308}, {301, 308}
_ENCODINGS = {"": None, "identity": None, "gzip": 47, "x-gzip": 47, "deflate": 47}  # zlib: tell gzip and deflate apart
_HEADERS = {"Accept": ACCEPT, "Accept-Encoding": "gzip, deflate"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one visit may cost us."""

    bytes: int = 10_000_000  # of the decoded document
    seconds: float = 20.0
    redirects: int = 5


class FetchFailed(Exception):
    """There is no document to be had; the reason in a few words. ``wire_bytes`` came nevertheless."""

    def __init__(self, reason: str, wire_bytes: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wire_bytes = wire_bytes


@dataclass(frozen=True)
class Fetched:
    """An answer. ``url`` is where it came from, ``lasting_url`` where to ask next time: after permanent redirects."""

    status: int
    url: str
    lasting_url: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    wire_bytes: int = 0

    def header(self, name: str) -> str:
        return self.headers.get(name.lower(), "")

    @cached_property
    def digest(self) -> str:
        """The hash by which its document is known."""
        return blake2b(self.body, digest_size=16).hexdigest()


async def fetch(
    session: aiohttp.ClientSession, url: str, conditions: Mapping[str, str], gate: Gate, limits: Limits = Limits()
) -> Fetched:
    """The answer to a GET, after redirects; FetchFailed with the reason where there is none.

    The seconds are those of requests: waiting for our turn at a host does not count.
    """
    here = lasting = url
    left_s, wire_bytes = limits.seconds, 0
    for _ in range(limits.redirects + 1):
        async with gate.passed(here):
            start = monotonic()
            answer = await _one(session, here, conditions if here == url else {}, left_s, limits)
            left_s -= monotonic() - start
        wire_bytes += answer.wire_bytes
        if answer.status not in _MOVED or not answer.header("Location"):
            return Fetched(answer.status, here, lasting, answer.body, answer.headers, wire_bytes)
        target = _target(here, answer.header("Location"), wire_bytes)
        lasting = target if answer.status in _MOVED_FOR_GOOD and lasting == here else lasting
        here = target
    raise FetchFailed(f"more than {limits.redirects} redirects", wire_bytes)


def _target(here: str, location: str, wire_bytes: int) -> str:
    try:
        return checked_url(urljoin(here, location))
    except (InputError, ValueError):
        raise FetchFailed(f"it redirects to {location[:80]!r}, which is no address", wire_bytes) from None


async def _one(
    session: aiohttp.ClientSession, url: str, conditions: Mapping[str, str], seconds: float, limits: Limits
) -> Fetched:
    try:
        async with (
            asyncio.timeout(seconds),
            session.get(URL(url, encoded=True), headers={**_HEADERS, **conditions}, allow_redirects=False) as answer,
        ):
            headers = {name.lower(): value for name, value in answer.headers.items()}
            wire_bytes = 15 + sum(len(name) + len(value) + 4 for name, value in answer.raw_headers)
            if answer.status != 200:  # what servers say besides is of no use to us
                answer.close()
                return Fetched(answer.status, url, url, b"", headers, wire_bytes)
            body, body_bytes = await _body(answer, headers.get("content-encoding", ""), limits.bytes)
            return Fetched(200, url, url, body, headers, wire_bytes + body_bytes)
    except TimeoutError:
        raise FetchFailed(f"it took longer than {limits.seconds:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchFailed(_reason(error)) from None


async def _body(answer: aiohttp.ClientResponse, encoding: str, most: int) -> tuple[bytes, int]:
    """The decoded document, and how many bytes came. Decoded piece by piece: a bomb is noticed in time."""
    if encoding.strip().lower() not in _ENCODINGS:
        raise FetchFailed(f"it is encoded as {encoding[:40]!r}, which nobody asked for")
    window = _ENCODINGS[encoding.strip().lower()]
    decoder = zlib.decompressobj(window) if window is not None else None
    decoded, wire_bytes = bytearray(), 0
    async for piece in answer.content.iter_any():
        wire_bytes += len(piece)
        if decoder is None:
            decoded += piece
        else:
            try:
                decoded += decoder.decompress(piece, most + 1 - len(decoded))
            except zlib.error:
                raise FetchFailed("what it compressed cannot be read", wire_bytes) from None
        if len(decoded) > most or wire_bytes > most:
            answer.close()
            raise FetchFailed(f"it is larger than {most / 1e6:g} MB", wire_bytes)
    if decoder is not None and wire_bytes and not decoder.eof:
        raise FetchFailed("it ended before its end", wire_bytes)
    return bytes(decoded), wire_bytes


def _reason(error: Exception) -> str:
    if (refused := refusal(error)) is not None:
        return str(refused)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError | aiohttp.ClientSSLError):
        return "its certificate cannot be trusted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"it cannot be reached ({error.os_error.strerror or error.os_error})"
    return f"the server does not speak HTTP as it should ({type(error).__name__})"
