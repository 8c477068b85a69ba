"""Decide about a visit without clock or network: what to request, what is new, when to visit again.

The four steps of Cobra's crawler: conditional requests; drop a document that is the same; split the others; drop known
articles. Only new articles become posts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import orjson

from tidings.crawl.article import ParsedFeed
from tidings.crawl.fetch import FeedResponse
from tidings.crawl.identity import KnownArticle, NewArticle, diff_articles, pack_known
from tidings.crawl.lanes import VisitCost
from tidings.crawl.schedule import (
    SchedulePolicy,
    UpdateHistory,
    add_jitter,
    estimate_history,
    failure_interval_s,
    freshness_s,
    interval_s,
    update_history,
)
from tidings.net.retry_after import parse_retry_after
from tidings.net.urls import drop_userinfo
from tidings.store.feeds import VisitRecord
from tidings.text.sanitize import clean_text

POSTPONED = "postponed"
_GONE, _BUSY = 410, {429, 503}
_MAX_VALIDATOR_CHARACTERS = 1_000  # longer validators are not sent back
_MAX_REASON_CHARACTERS = 300
_DATE_ERROR_S = 86_400.0  # of dates without time or zone
_STATUS_REASONS = {
    304: "status 304 without a previous visit",
    401: "a password is required",
    403: "access denied",
    404: "not found",
    410: "gone",
    429: "too many requests",
}


@dataclass(frozen=True, slots=True)
class VisitMemory:
    """State of a feed between visits. The field names are stored as JSON."""

    visits: int = 0
    checked_at: float | None = None
    read_at: float | None = None  # when a document was last read or unchanged
    first_read_at: float | None = None  # also None for feeds that were first read by an older version
    backlog_sent: int = 0  # articles of the backlog that webhooks send
    etag: str = ""
    last_modified: str = ""
    told_by: str = ""  # the URL that sent etag and last_modified
    document: str = ""  # a hash
    ttl_s: float = 0.0  # interval that the document requested
    rhythm: UpdateHistory = field(default_factory=UpdateHistory)
    note: str = ""  # why the document gives no posts
    cost: VisitCost = field(default_factory=VisitCost)  # of the last visit

    @classmethod
    def from_json(cls, text: str) -> VisitMemory:
        values: dict[str, Any] = orjson.loads(text)
        rhythm, cost = UpdateHistory(**values.get("rhythm", {})), VisitCost(**values.get("cost", {}))
        return cls(**{**values, "rhythm": rhythm, "cost": cost})

    def to_json(self) -> str:
        return orjson.dumps(self).decode()


@dataclass(frozen=True, slots=True)
class FeedVisit:
    """A feed to visit, with its state. `owner` is the follower whose turn it is."""

    feed: int
    url: str
    memory: VisitMemory
    known: tuple[KnownArticle, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class VisitOutcome:
    """The result of a visit. `wait_s` is the Retry-After of its host."""

    visited: VisitRecord
    step: str  # where it ended: unchanged (304), same, read, failed; POSTPONED ones are not stored
    updated: int = 0
    wire_bytes: int = 0
    wait_s: float = 0.0
    parse_cpu_s: float = 0.0


def conditional_headers(visit: FeedVisit) -> dict[str, str]:
    """Return the headers of a conditional request."""
    memory = visit.memory
    if memory.told_by != visit.url:
        return {}
    headers = {"If-None-Match": memory.etag, "If-Modified-Since": memory.last_modified}
    return {name: value for name, value in headers.items() if value}


def is_unchanged(visit: FeedVisit, answer: FeedResponse) -> bool:
    """Return whether the document is unchanged: by status 304 or by its hash."""
    return answer.status == 304 or (answer.status == 200 and answer.digest == visit.memory.document)


def decide_unchanged(
    visit: FeedVisit, answer: FeedResponse, now: float, policy: SchedulePolicy, cost: VisitCost
) -> VisitOutcome:
    """Return the outcome of a visit to an unchanged document."""
    before = replace(visit.memory, cost=replace(cost, parse_cpu_s=visit.memory.cost.parse_cpu_s))
    memory = _after_visit(before, answer, now, 0, policy)
    visited = _success(visit, answer, memory, now, policy, has_gap=False)
    return VisitOutcome(visited, "unchanged" if answer.status == 304 else "same", wire_bytes=answer.wire_bytes)


def decide_read(
    visit: FeedVisit,
    answer: FeedResponse,
    document: ParsedFeed,
    now: float,
    policy: SchedulePolicy,
    cost: VisitCost,
    *,
    webhook_backlog: int = 0,
    post_id_key: str = "",
) -> VisitOutcome:
    """Return the outcome of a visit that read a document; its new articles become posts.

    Webhooks do not send the backlog, except the newest `webhook_backlog`: the articles of the first document, and those
    of later documents that were published more than a day before it was read. (It may have been empty or incomplete.)
    """
    diff = diff_articles(visit.known, document.articles, document.site, now)
    is_first = visit.memory.read_at is None
    rhythm = (
        estimate_history([article.published_at for article in document.articles], now)
        if is_first
        else visit.memory.rhythm
    )
    rhythm = replace(rhythm, window=len(document.articles))
    posts = tuple(to_posts(visit, document, diff.new, now, post_id_key))
    old = [post for post in posts if is_first or _is_older(post, visit.memory.first_read_at)]
    backlog = find_backlog(old, max(0, webhook_backlog - visit.memory.backlog_sent))
    before = replace(
        visit.memory,
        rhythm=rhythm,
        ttl_s=document.ttl_s,
        note=document.note,
        cost=cost,
        first_read_at=now if is_first else visit.memory.first_read_at,
        backlog_sent=visit.memory.backlog_sent + len(old) - len(backlog),
    )
    memory = _after_visit(before, answer, now, 0 if is_first else len(diff.new), policy)
    visited = replace(
        _success(visit, answer, memory, now, policy, diff.has_gap),
        title=document.title,
        site=document.site,
        known=pack_known(diff.known),
        posts=posts,
        backlog=backlog,
    )
    return VisitOutcome(visited, "read", diff.updated, answer.wire_bytes, parse_cpu_s=cost.parse_cpu_s)


def decide_postponed(visit: FeedVisit, now: float, cost: VisitCost) -> VisitOutcome:
    """Return the outcome of a visit that is to be repeated in the slow lane: the feed stays as it is."""
    unchanged = VisitRecord(visit.feed, visit.url, "new", checked_at=now, due_at=now)
    return VisitOutcome(unchanged, POSTPONED, parse_cpu_s=cost.parse_cpu_s)


def decide_failed(
    visit: FeedVisit,
    reason: str,
    now: float,
    policy: SchedulePolicy,
    answer: FeedResponse | None,
    wire_bytes: int,
    cost: VisitCost,
) -> VisitOutcome:
    """Return the outcome of a visit that found no readable feed."""
    status = 0 if answer is None else answer.status
    rhythm = replace(visit.memory.rhythm, failures=visit.memory.rhythm.failures + 1)
    memory = replace(visit.memory, visits=visit.memory.visits + 1, checked_at=now, rhythm=rhythm, cost=cost)
    retry_after_s = (
        (parse_retry_after(answer.header("Retry-After"), now) or 0.0) if answer is not None and status in _BUSY else 0.0
    )
    retry_after_s = min(retry_after_s, policy.max_retry_after_s)
    due_at = now + max(retry_after_s, add_jitter(failure_interval_s(rhythm, policy), visit.feed, memory.visits))
    visited = VisitRecord(
        visit.feed,
        visit.url,
        "gone" if status == _GONE else "failing",
        checked_at=now,
        due_at=None if status == _GONE else due_at,
        error=clean_text(reason, _MAX_REASON_CHARACTERS),
        visit=memory.to_json(),
    )
    return VisitOutcome(visited, "failed", 0, wire_bytes, retry_after_s, cost.parse_cpu_s)


def explain_status(status: int) -> str:
    """Return why a response with this status has no document."""
    return _STATUS_REASONS.get(status, f"unexpected status {status}")


def _after_visit(
    before: VisitMemory, answer: FeedResponse, now: float, new: int, policy: SchedulePolicy
) -> VisitMemory:
    """Return the state after a successful visit."""
    since_s = 0.0 if before.read_at is None else max(0.0, now - before.read_at)
    fresh_s = freshness_s(answer.header("Cache-Control"), answer.header("Expires"), answer.header("Date"))
    history = update_history(before.rhythm, new, since_s, policy)
    rhythm = replace(history, failures=0, asked_for_s=max(before.ttl_s, fresh_s))
    memory = replace(before, visits=before.visits + 1, checked_at=now, read_at=now, rhythm=rhythm)
    if answer.status == 304:
        return memory
    return replace(
        memory,
        etag=_check_validator(answer.header("ETag")),
        last_modified=_check_validator(answer.header("Last-Modified")),
        told_by=answer.permanent_url if answer.permanent_url == answer.url else "",
        document=answer.digest,
    )


def _check_validator(header: str) -> str:
    return header if len(header) <= _MAX_VALIDATOR_CHARACTERS and header.isascii() and header.isprintable() else ""


def _success(
    visit: FeedVisit, answer: FeedResponse, memory: VisitMemory, now: float, policy: SchedulePolicy, has_gap: bool
) -> VisitRecord:
    wait = add_jitter(interval_s(memory.rhythm, policy, has_gap), visit.feed, memory.visits)
    return VisitRecord(
        visit.feed,
        answer.permanent_url,
        "ok",
        checked_at=now,
        due_at=now + wait,
        error=memory.note,
        visit=memory.to_json(),
    )


def to_posts(
    visit: FeedVisit, document: ParsedFeed, new: Iterable[NewArticle], now: float, post_id_key: str = ""
) -> Iterable[dict[str, Any]]:
    """Yield new articles as posts for the stream; articles without any text are skipped."""
    feed = _hash_url(visit.url, post_id_key)
    for article, name in new:
        if text := article.text or article.title or article.link:
            post = {
                "id": f"{feed}-{name}",
                "text": text,
                "title": article.title if article.text else "",
                "time": _iso(now if article.published_at is None else article.published_at),
                "author": article.author,
                "lang": document.lang,
                "tags": list(article.tags),
                "link": article.link,
            }
            yield {key: value for key, value in post.items() if value}


def _hash_url(url: str, key: str) -> str:
    """Return the part of post ids that all articles of a feed have.

    Every owner sees post ids, so a URL with a password is hashed with the secret key: nobody can test guesses of the
    password. It is not hashed without the password, because feeds that differ only in it may have different articles.
    """
    secret = key.encode() if drop_userinfo(url) != url else b""
    return blake2b(url.encode(), digest_size=16, key=secret).hexdigest()[:12]


def _is_older(post: Mapping[str, Any], first_read_at: float | None) -> bool:
    """Return whether a post was certainly published before its feed was first read."""
    return first_read_at is not None and str(post["time"]) < _iso(first_read_at - _DATE_ERROR_S)


def find_backlog(posts: Sequence[Mapping[str, Any]], newest: int) -> tuple[str, ...]:
    """Return the ids of all posts except the newest ones; of posts with equal times, the first are newer."""
    by_time = sorted(posts, key=lambda post: str(post["time"]), reverse=True)
    return tuple(str(post["id"]) for post in by_time[newest:])


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
