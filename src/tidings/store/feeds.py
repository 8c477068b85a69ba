"""Feeds: their followers, the state of the crawler, and the outbox of articles that wait for the stream.

A feed is stored once for all its followers and is deleted with the last of them. The articles of a visit and the memory
that marks them as known are stored in one transaction, so an article is sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson

from tidings.errors import UnknownFeed
from tidings.net.urls import normalize_url
from tidings.store.columns import TEXT_ID
from tidings.store.counters import advance_counter
from tidings.store.database import Database
from tidings.store.rows import fits_int64
from tidings.text.sanitize import clean_text

FeedState = Literal["new", "ok", "failing", "gone"]
_PAGE_ROWS = 1_000
_COLUMNS = "f.id, f.url, {title}, f.site, f.state, {added}, f.checked_at, f.due_at, f.error, f.articles, {given}"
_TITLE = "CASE WHEN o.title <> '' THEN o.title ELSE f.title END"
_OF_OWNER = _COLUMNS.format(title=_TITLE, added="o.added_at", given="o.given")
_OF_ALL = _COLUMNS.format(title="f.title", added="f.added_at", given="''")
_VISIT = """UPDATE feed SET state = ?, checked_at = ?, due_at = ?, error = ?, visit = ?, articles = articles + ?,
    title = CASE WHEN ? <> '' THEN ? ELSE title END, site = CASE WHEN ? <> '' THEN ? ELSE site END WHERE id = ?"""
_OUTBOX_POSTS = 2_000  # per row of the outbox, which becomes one file in the inbox
_to_json_line = partial(orjson.dumps, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(frozen=True, slots=True)
class FeedRow:
    """A feed as its followers see it. ``due_at`` is None if the feed is gone.

    ``error`` is why the last visit failed, or why the document has no items; otherwise empty.
    ``given`` is the URL that one follower gave, from which the feed may have moved; empty if it is not recorded.
    """

    id: int
    url: str
    title: str
    site: str
    state: FeedState
    added_at: float
    checked_at: float | None
    due_at: float | None
    error: str
    articles: int
    given: str = ""


class DueFeed(NamedTuple):
    """A feed to visit; ``visit`` is the crawler's state after the last visit (JSON).

    ``owner`` is the follower whose turn it is; the crawler chooses it.
    """

    id: int
    url: str
    due_at: float
    visit: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """The result of a visit to a feed. ``known`` is None if the known articles did not change.

    ``backlog`` has the ids of those posts that webhooks do not send: articles from before the feed was first read.
    """

    feed: int
    url: str
    state: FeedState
    checked_at: float
    due_at: float | None
    error: str = ""
    title: str = ""
    site: str = ""
    visit: str = "{}"
    known: str | None = None
    posts: Sequence[Mapping[str, Any]] = ()
    backlog: Sequence[str] = ()


class OutboxRow(NamedTuple):
    """Posts that wait for the stream, as JSON Lines; the number is never reused."""

    number: int
    lines: str


class Feeds:
    """The feeds of a store."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._db, self._now = database, clock

    def add(self, url: str, owner: str = "", title: str = "") -> int:
        """Let an owner follow a feed (or the feed of a page) and return its id, which all followers share.

        The feed is due immediately if it is new or was gone. Raises InputError for an invalid URL.
        """
        address, now = normalize_url(url), self._now()
        with self._db.transaction():
            feed = self._find(address) or self._insert(address, now)
            self._db.execute("UPDATE feed SET state = 'new', due_at = ? WHERE id = ? AND state = 'gone'", now, feed)
            # A new follower makes the feed due: a longer wait than for a new feed would reveal other followers.
            follows = "SELECT 1 FROM feed_owner o WHERE o.feed = feed.id AND o.owner = ?"
            sql = f"UPDATE feed SET due_at = ? WHERE id = ? AND due_at > ? AND NOT EXISTS ({follows})"
            self._db.execute(sql, now, feed, now, owner)
            self._db.execute(
                "INSERT INTO feed_owner (feed, owner, title, added_at, given) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (feed, owner) DO UPDATE SET title = excluded.title WHERE excluded.title <> ''",
                *(feed, owner, clean_text(title), now, address),
            )
        return feed

    def _insert(self, address: str, now: float) -> int:
        feed = advance_counter(self._db, "feed", 1) + 1
        sql = "INSERT INTO feed (id, url, title, site, state, added_at, due_at, error, articles, visit) "
        self._db.execute(sql + "VALUES (?, ?, '', '', 'new', ?, ?, '', 0, '{}')", feed, address, now, now)
        return feed

    def _find(self, address: str) -> int | None:
        """Return the feed at a URL, or the one that moved away from it."""
        rows = self._db.fetch("SELECT id FROM feed WHERE url = ?", address)
        rows = rows or self._db.fetch("SELECT feed FROM feed_moved WHERE url = ?", address)
        return int(rows[0][0]) if rows else None

    def remove(self, feed: int, owner: str | None = None) -> None:
        """Remove one follower, or all of them (None), and with the last one the feed.

        Raises UnknownFeed if there is no such feed or this owner does not follow it.
        """
        with self._db.transaction():
            condition, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
            sql = f"DELETE FROM feed_owner WHERE feed = ?{condition}"
            if not fits_int64(feed) or not self._db.execute(sql, feed, *values):
                raise UnknownFeed(feed)
            if not self._db.fetch("SELECT 1 FROM feed_owner WHERE feed = ? LIMIT 1", feed):
                self._delete(feed)

    def _delete(self, feed: int) -> None:
        for table, column in (("feed", "id"), ("feed_known", "feed"), ("feed_moved", "feed"), ("feed_owner", "feed")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", feed)

    def all(self, owner: str | None = None) -> Iterator[FeedRow]:
        """Iterate over the feeds of an owner, or over all of them (None), by id; rows are read in pages."""
        followed = f"{_OF_OWNER} FROM feed_owner o JOIN feed f ON f.id = o.feed WHERE o.owner = ? AND"
        selected, values = (followed, (owner,)) if owner is not None else (f"{_OF_ALL} FROM feed f WHERE", ())
        last = 0
        while rows := self._db.fetch(f"SELECT {selected} f.id > ? ORDER BY f.id LIMIT {_PAGE_ROWS}", *values, last):
            yield from (FeedRow(*row) for row in rows)
            last = rows[-1][0]

    # for the crawler

    def due(self, now: float, limit: int) -> list[DueFeed]:
        """Return the feeds that are due, longest waiting first."""
        sql = "SELECT id, url, due_at, visit FROM feed WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
        return [DueFeed(*row) for row in self._db.fetch(sql, now, limit)]

    def next_due_at(self) -> float | None:
        """Return when the next feed is due, or None if no feed will be."""
        due_at: float | None = self._db.fetch("SELECT min(due_at) FROM feed")[0][0]
        return due_at

    def known_articles(self, feeds: Sequence[int]) -> dict[int, str]:
        """Return, per feed, the known articles in the format of the crawler."""
        ids = np.array(feeds, np.int64)
        bound = self._db.bind_pairs(ids, np.zeros_like(ids))
        sql = f"SELECT k.feed, k.known FROM (SELECT a FROM {bound.sql}) AS g JOIN feed_known k ON k.feed = g.a"
        return {int(feed): str(text) for feed, text in self._db.fetch(sql, *bound.parameters)}

    def followers(self, feeds: Sequence[int]) -> dict[int, list[str]]:
        """Return the owners that follow each feed."""
        ids = np.array(feeds, np.int64)
        bound = self._db.bind_pairs(ids, np.zeros_like(ids))
        sql = f"SELECT o.feed, o.owner FROM (SELECT a FROM {bound.sql}) AS g JOIN feed_owner o ON o.feed = g.a"
        owners: dict[int, list[str]] = {}
        for feed, owner in self._db.fetch(sql, *bound.parameters):
            owners.setdefault(int(feed), []).append(str(owner))
        return owners

    def record_visits(self, visits: Sequence[VisitRecord]) -> int:
        """Store visits, and their posts in the outbox, in one transaction; return the number of posts.

        Visits to feeds that were removed in the meantime are ignored.
        """
        with self._db.transaction():
            posts: list[Mapping[str, Any]] = []
            backlog: list[str] = []
            for visit in visits:
                if self._record(visit):
                    posts += visit.posts
                    backlog += visit.backlog
            self._add_backlog(backlog)
            for start in range(0, len(posts), _OUTBOX_POSTS):
                lines = b"".join(map(_to_json_line, posts[start : start + _OUTBOX_POSTS]))
                text = lines.decode().replace("\\u0000", "\\ufffd")
                number = advance_counter(self._db, "outbox", 1) + 1
                self._db.execute("INSERT INTO outbox (number, posts) VALUES (?, ?)", number, text)
        return len(posts)

    def _record(self, visit: VisitRecord) -> bool:
        """Store a visit; return whether its posts are to be sent."""
        rows = self._db.fetch("SELECT url FROM feed WHERE id = ?", visit.feed)
        if not rows:
            return False
        titles = map(_replace_nul, (visit.title, visit.title, visit.site, visit.site))
        schedule = (visit.state, visit.checked_at, visit.due_at, visit.error, visit.visit)
        self._db.execute(_VISIT, *schedule, len(visit.posts), *titles, visit.feed)
        if visit.known is not None:
            upsert = "ON CONFLICT (feed) DO UPDATE SET known = excluded.known"
            self._db.execute(f"INSERT INTO feed_known (feed, known) VALUES (?, ?) {upsert}", visit.feed, visit.known)
        return self._move(visit, str(rows[0][0]))

    def _add_backlog(self, posts: Sequence[str]) -> None:
        """Mark posts before the stream can see them; those that are stored already were sent or are being sent."""
        if posts:
            bound = self._db.bind_texts(list(dict.fromkeys(posts)))
            stored = f"SELECT 1 FROM post p WHERE p.id = value AND p.id_kind = {TEXT_ID}"
            sql = (
                f"INSERT INTO backlog_post (id, added_at) SELECT value, ? FROM {bound.sql} WHERE NOT EXISTS ({stored})"
            )
            self._db.execute(f"{sql} ON CONFLICT (id) DO NOTHING", self._now(), *bound.parameters)

    def _move(self, visit: VisitRecord, old_url: str) -> bool:
        """Store a new URL; merge into the feed that has it already, whose own visits send the posts (False)."""
        if old_url == visit.url:
            return True
        other = self._find(visit.url)
        target = visit.feed if other in (None, visit.feed) else other
        self._db.execute("DELETE FROM feed_moved WHERE url = ?", visit.url)
        if target == visit.feed:
            self._db.execute("UPDATE feed SET url = ? WHERE id = ?", visit.url, visit.feed)
        else:
            followers = "SELECT ?, owner, title, added_at, given FROM feed_owner WHERE feed = ?"
            sql = f"INSERT INTO feed_owner (feed, owner, title, added_at, given) {followers} ON CONFLICT DO NOTHING"
            self._db.execute(sql, target, visit.feed)
            self._db.execute("UPDATE feed_moved SET feed = ? WHERE feed = ?", target, visit.feed)
            self._delete(visit.feed)
        self._db.execute("INSERT INTO feed_moved (url, feed) VALUES (?, ?)", old_url, target)
        return target == visit.feed

    def outbox(self) -> Iterator[OutboxRow]:
        """Iterate over the posts that wait for the stream, in order."""
        last = 0
        while rows := self._db.fetch("SELECT number, posts FROM outbox WHERE number > ? ORDER BY number LIMIT 1", last):
            last, lines = rows[0]
            yield OutboxRow(int(last), str(lines))

    def mark_sent(self, number: int) -> None:
        """Delete a row of the outbox after the stream has received it."""
        self._db.execute("DELETE FROM outbox WHERE number = ?", number)


def _replace_nul(text: str) -> str:
    return text.replace("\x00", "\ufffd")  # PostgreSQL cannot hold NUL
