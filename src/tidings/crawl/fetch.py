"""Fetch one document with limits on bytes, seconds, redirects, interim responses and pieces."""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from time import monotonic
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from tidings.crawl.rate_limit import HostGate
from tidings.errors import InputError
from tidings.net.interim_limit import TooManyInterimResponses
from tidings.net.ssrf_guard import find_refusal
from tidings.net.urls import normalize_url

ACCEPT = "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, text/xml, */*;q=0.5"
_REDIRECTS, _PERMANENT_REDIRECTS = {301, 302, 303, 307, 308}, {301, 308}
_ENCODINGS = {"": None, "identity": None, "gzip": 47, "x-gzip": 47, "deflate": 47}  # zlib: detect gzip or deflate
_HEADERS = {"Accept": ACCEPT, "Accept-Encoding": "gzip, deflate"}


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one visit."""

    bytes: int = 10_000_000  # of the decompressed document
    seconds: float = 20.0
    redirects: int = 5
    small_pieces: int = 1_000  # chunks or reads beyond that must have a mean of `piece_bytes`
    piece_bytes: int = 16


class FetchFailed(Exception):
    """A fetch failed; `wire_bytes` were received nevertheless, and the requests took `took_s`."""

    def __init__(self, reason: str, wire_bytes: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wire_bytes = wire_bytes
        self.took_s = 0.0


class FetchTimedOut(FetchFailed):
    """A response that was not complete in time."""


@dataclass(frozen=True)
class FeedResponse:
    """A response. `url` is after all redirects, `permanent_url` after permanent ones: request that next time."""

    status: int
    url: str
    permanent_url: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    wire_bytes: int = 0
    took_s: float = 0.0  # of the requests, without waiting for the host

    def header(self, name: str) -> str:
        return self.headers.get(name.lower(), "")

    @cached_property
    def digest(self) -> str:
        """Hash of the document."""
        return blake2b(self.body, digest_size=16).hexdigest()


async def fetch(
    session: aiohttp.ClientSession,
    url: str,
    conditions: Mapping[str, str],
    gate: HostGate,
    limits: FetchLimits = FetchLimits(),
    timer: Callable[[], float] = monotonic,
    spent_s: float = 0.0,
) -> FeedResponse:
    """Return the response to a GET, after redirects. Raises FetchFailed.

    `spent_s` is what earlier requests of the visit took. Waiting for a slot of the host does not count towards the time
    limit.
    """
    current = permanent = url
    took_s, wire_bytes = 0.0, 0
    for _ in range(limits.redirects + 1):
        async with gate.slot(current):
            start = timer()
            try:
                left_s = limits.seconds - spent_s - took_s
                answer = await _fetch_once(session, current, conditions if current == url else {}, left_s, limits)
            except FetchFailed as error:
                error.took_s = took_s + timer() - start
                raise
            took_s += timer() - start
        wire_bytes += answer.wire_bytes
        if answer.status not in _REDIRECTS or not answer.header("Location"):
            return FeedResponse(answer.status, current, permanent, answer.body, answer.headers, wire_bytes, took_s)
        target = _redirect_target(current, answer.header("Location"), wire_bytes)
        permanent = target if answer.status in _PERMANENT_REDIRECTS and permanent == current else permanent
        current = target
    raise FetchFailed(f"more than {limits.redirects} redirects", wire_bytes)


def _redirect_target(current: str, location: str, wire_bytes: int) -> str:
    try:
        return normalize_url(urljoin(current, location))
    except (InputError, ValueError):
        raise FetchFailed("invalid redirect", wire_bytes) from None


async def _fetch_once(
    session: aiohttp.ClientSession, url: str, conditions: Mapping[str, str], seconds: float, limits: FetchLimits
) -> FeedResponse:
    try:
        async with (
            asyncio.timeout(seconds),
            session.get(URL(url, encoded=True), headers={**_HEADERS, **conditions}, allow_redirects=False) as answer,
        ):
            headers = {name.lower(): value for name, value in answer.headers.items()}
            wire_bytes = 15 + sum(len(name) + len(value) + 4 for name, value in answer.raw_headers)
            if answer.status != 200:  # the body of other responses is not needed
                answer.close()
                return FeedResponse(answer.status, url, url, b"", headers, wire_bytes)
            body, body_bytes = await _read_body(answer, headers.get("content-encoding", ""), limits)
            return FeedResponse(200, url, url, body, headers, wire_bytes + body_bytes)
    except TimeoutError:
        raise FetchTimedOut(f"no complete response within {limits.seconds:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchFailed(_explain_error(error)) from None


async def _read_body(answer: aiohttp.ClientResponse, encoding: str, limits: FetchLimits) -> tuple[bytes, int]:
    """Return the decompressed document and the bytes received. Stops a decompression bomb in time."""
    if encoding.strip().lower() not in _ENCODINGS:
        raise FetchFailed(f"unexpected Content-Encoding {encoding[:40]!r}")
    window = _ENCODINGS[encoding.strip().lower()]
    decoder = zlib.decompressobj(window) if window is not None else None
    decoded, wire_bytes, pieces = bytearray(), 0, 0
    async for piece, _ in answer.content.iter_chunks():
        pieces, wire_bytes = pieces + 1, wire_bytes + len(piece)
        decoded += piece if decoder is None else _decompress(decoder, piece, limits.bytes + 1 - len(decoded))
        if reason := _find_excess(len(decoded), wire_bytes, pieces, limits):
            answer.close()
            raise FetchFailed(reason, wire_bytes)
    if decoder is not None and wire_bytes and not decoder.eof:
        raise FetchFailed("response truncated", wire_bytes)
    return bytes(decoded), wire_bytes


def _decompress(decoder: zlib._Decompress, piece: bytes, max_bytes: int) -> bytes:
    try:
        return decoder.decompress(piece, max_bytes)
    except zlib.error:
        raise FetchFailed("invalid compressed data", len(piece)) from None


def _find_excess(decoded_bytes: int, wire_bytes: int, pieces: int, limits: FetchLimits) -> str:
    """Return which limit of a body is exceeded, or nothing."""
    if max(decoded_bytes, wire_bytes) > limits.bytes:
        return f"larger than {limits.bytes / 1e6:g} MB"
    if pieces > limits.small_pieces + wire_bytes / limits.piece_bytes:
        return "sent in very many tiny pieces"
    return ""


def _explain_error(error: Exception) -> str:
    if (rejection := find_refusal(error)) is not None:
        return str(rejection)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError | aiohttp.ClientSSLError):
        return "certificate not trusted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "No such website: check the spelling."
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno  # the text of the error has the address that the name resolved to
        return f"connection failed ({os.strerror(number).lower()})" if number else "connection failed"
    if isinstance(error, TooManyInterimResponses):
        return "too many interim responses (status 1xx)"
    return f"invalid HTTP response ({type(error).__name__})"
