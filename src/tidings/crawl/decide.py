"""What a visit means, decided without clock or network: what to ask for, what is new, when to come again.

The four steps of Cobra's crawler: ask only for what changed; drop a document that is the same; split the others; drop
the articles that are known. Only new articles go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import orjson

from tidings.crawl.article import Article, Document
from tidings.crawl.fetch import Fetched
from tidings.crawl.identity import KnownArticle, NewArticle, news, packed
from tidings.crawl.schedule import Pace, Rhythm, backoff_s, first_seen, freshness_s, interval_s, observed, spread
from tidings.net.retry_after import wait_s
from tidings.store.feeds import Visited
from tidings.text.sanitize import clean_text

_GONE, _BUSY = 410, {429, 503}
_MAX_HEADER = 1_000  # longer marks of a version are not worth being sent back
_MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of the visits to a feed."""

    visits: int = 0
    checked_at: float | None = None
    read_at: float | None = None  # when a document was last read, or was still the same
    etag: str = ""
    last_modified: str = ""
    told_by: str = ""  # the address that gave the two
    document: str = ""  # a hash
    ttl_s: float = 0.0  # how long the document asked to be left alone
    rhythm: Rhythm = field(default_factory=Rhythm)

    @classmethod
    def from_json(cls, text: str) -> Memory:
        found: dict[str, Any] = orjson.loads(text)
        return cls(**{**found, "rhythm": Rhythm(**found.get("rhythm", {}))})

    def to_json(self) -> str:
        return orjson.dumps(self).decode()


@dataclass(frozen=True, slots=True)
class Asked:
    """A feed at the moment of a visit."""

    feed: int
    url: str
    memory: Memory
    known: tuple[KnownArticle, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a visit led to, and what it cost. ``wait_s``: so long its host wants to be left alone."""

    visited: Visited
    step: str  # where it ended: unchanged (304), same, read, failed
    updated: int = 0
    wire_bytes: int = 0
    wait_s: float = 0.0


def conditions(asked: Asked) -> dict[str, str]:
    """The headers that ask only for a document that changed."""
    memory = asked.memory
    if memory.told_by != asked.url:
        return {}
    told = {"If-None-Match": memory.etag, "If-Modified-Since": memory.last_modified}
    return {name: value for name, value in told.items() if value}


def is_same(asked: Asked, answer: Fetched) -> bool:
    """Whether there is nothing to read: the server says so, or the document is the one we had."""
    return answer.status == 304 or (answer.status == 200 and answer.digest == asked.memory.document)


def same(asked: Asked, answer: Fetched, now: float, pace: Pace) -> Outcome:
    """Nothing changed."""
    memory = _visited(asked.memory, answer, now, 0, pace)
    visited = _went_well(asked, answer, memory, now, pace, is_torn=False)
    return Outcome(visited, "unchanged" if answer.status == 304 else "same", wire_bytes=answer.wire_bytes)


def read(asked: Asked, answer: Fetched, document: Document, now: float, pace: Pace) -> Outcome:
    """A document was read: its new articles become posts."""
    found = news(asked.known, document.articles, document.site, now)
    is_first = asked.memory.read_at is None
    rhythm = first_seen([one.published_at for one in document.articles], now) if is_first else asked.memory.rhythm
    before = replace(asked.memory, rhythm=replace(rhythm, window=len(document.articles)), ttl_s=document.ttl_s)
    memory = _visited(before, answer, now, 0 if is_first else len(found.new), pace)
    visited = replace(
        _went_well(asked, answer, memory, now, pace, found.is_torn),
        title=document.title,
        site=document.site,
        known=packed(found.known),
        posts=tuple(posts(asked, document, found.new, now)),
    )
    return Outcome(visited, "read", found.updated, answer.wire_bytes)


def failed(asked: Asked, reason: str, now: float, pace: Pace, answer: Fetched | None, wire_bytes: int = 0) -> Outcome:
    """There was no feed to be read."""
    status = 0 if answer is None else answer.status
    rhythm = replace(asked.memory.rhythm, failures=asked.memory.rhythm.failures + 1)
    memory = replace(asked.memory, visits=asked.memory.visits + 1, checked_at=now, rhythm=rhythm)
    wanted_s = (wait_s(answer.header("Retry-After"), now) or 0.0) if answer is not None and status in _BUSY else 0.0
    wanted_s = min(wanted_s, pace.longest_wait_s)
    due_at = now + max(wanted_s, spread(backoff_s(rhythm, pace), asked.feed, memory.visits))
    visited = Visited(
        asked.feed,
        asked.url,
        "gone" if status == _GONE else "failing",
        checked_at=now,
        due_at=None if status == _GONE else due_at,
        error=clean_text(reason, _MAX_REASON),
        visit=memory.to_json(),
    )
    return Outcome(visited, "failed", wire_bytes=wire_bytes, wait_s=wanted_s)


def why(status: int) -> str:
    """What a status that brings no document means."""
    known = {304: "the server says it has not changed, but we never had it", 404: "there is nothing at this address"}
    known |= {401: "it asks for a password", 403: "the server will not let us have it", 429: "we asked too often"}
    known |= {410: "it is gone for good, says the server"}
    return known.get(status, f"the server answered with status {status}")


def _visited(before: Memory, answer: Fetched, now: float, new: int, pace: Pace) -> Memory:
    """The memory after a visit that went well."""
    since_s = 0.0 if before.read_at is None else max(0.0, now - before.read_at)
    fresh_s = freshness_s(answer.header("Cache-Control"), answer.header("Expires"), answer.header("Date"))
    seen = observed(before.rhythm, new, since_s, pace)
    rhythm = replace(seen, failures=0, asked_for_s=max(before.ttl_s, fresh_s))
    memory = replace(before, visits=before.visits + 1, checked_at=now, read_at=now, rhythm=rhythm)
    if answer.status == 304:
        return memory
    return replace(
        memory,
        etag=_mark(answer.header("ETag")),
        last_modified=_mark(answer.header("Last-Modified")),
        told_by=answer.lasting_url if answer.lasting_url == answer.url else "",
        document=answer.digest,
    )


def _mark(header: str) -> str:
    return header if len(header) <= _MAX_HEADER and header.isascii() and header.isprintable() else ""


def _went_well(asked: Asked, answer: Fetched, memory: Memory, now: float, pace: Pace, is_torn: bool) -> Visited:
    wait = spread(interval_s(memory.rhythm, pace, is_torn), asked.feed, memory.visits)
    return Visited(asked.feed, answer.lasting_url, "ok", checked_at=now, due_at=now + wait, visit=memory.to_json())


def posts(asked: Asked, document: Document, new: Iterable[NewArticle], now: float) -> Iterable[dict[str, Any]]:
    """New articles as posts for the stream; one that says nothing at all is none."""
    feed = blake2b(asked.url.encode(), digest_size=16).hexdigest()[:12]
    for article, name in new:
        if text := article.text or article.title or article.link:
            made = {
                "id": f"{feed}-{name}",
                "text": text,
                "title": article.title if article.text else "",
                "time": _iso(article, now),
                "author": article.author,
                "lang": document.lang,
                "tags": list(article.tags),
                "link": article.link,
            }
            yield {key: value for key, value in made.items() if value}


def _iso(article: Article, now: float) -> str:
    at = article.published_at if article.published_at is not None else now
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
