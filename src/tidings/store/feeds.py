"""Feeds: who follows them, what the crawler remembers of them, and the outbox of articles on their way to the stream.

A feed is there once however many owners follow it, and goes with the last of them. What a visit found (articles for
the outbox, and the memory that makes them known) is stored in one transaction: an article goes out once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson

from tidings.errors import UnknownFeed
from tidings.net.urls import checked_url
from tidings.store.commit import counter
from tidings.store.database import Database

FeedState = Literal["new", "ok", "failing", "gone"]
_PAGE = 1_000
_FEED = "f.id, f.url, {title}, f.site, f.state, {added}, f.checked_at, f.due_at, f.error, f.articles, {given}"
_MINE = _FEED.format(title="CASE WHEN o.title <> '' THEN o.title ELSE f.title END", added="o.added_at", given="o.given")
_ANYBODYS = _FEED.format(title="f.title", added="f.added_at", given="''")
_line = partial(orjson.dumps, option=orjson.OPT_APPEND_NEWLINE)
_OUTBOX_POSTS = 2_000  # a row of the outbox: one file in the inbox


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed as its followers see it. ``error`` is empty while all is well; ``due_at`` is None once it is gone.

    ``given`` is the address one follower gave, from which it may have moved before; empty where that is not known.
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
    """A feed that is to be visited; ``visit`` is what the crawler noted last time, in its own words (JSON)."""

    id: int
    url: str
    due_at: float
    visit: str


@dataclass(frozen=True, slots=True)
class Visited:
    """What a visit to a feed led to. ``known`` is None where the articles known are those known before."""

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


class OutboxRow(NamedTuple):
    """Posts on their way, as JSON a line; the number is never given again."""

    number: int
    lines: str


def add(db: Database, url: str, owner: str, title: str, now: float) -> int:
    """Let an owner follow it, due at once if it is new or was gone; its id. InputError for what is no address."""
    address = checked_url(url)
    with db.write():
        feed = _find(db, address)
        if feed is None:
            feed = counter(db, "feed", 1) + 1
            sql = "INSERT INTO feed (id, url, title, site, state, added_at, due_at, error, articles, visit) "
            db.run(sql + "VALUES (?, ?, '', '', 'new', ?, ?, '', 0, '{}')", feed, address, now, now)
        db.run("UPDATE feed SET state = 'new', due_at = ? WHERE id = ? AND state = 'gone'", now, feed)
        mine = "SELECT 1 FROM feed_owner o WHERE o.feed = feed.id AND o.owner = ?"  # visited soon for each who comes:
        sql = f"UPDATE feed SET due_at = ? WHERE id = ? AND due_at > ? AND NOT EXISTS ({mine})"
        db.run(sql, now, feed, now, owner)  # waiting longer than for a new feed would tell that others follow it
        db.run(
            "INSERT INTO feed_owner (feed, owner, title, added_at, given) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (feed, owner) DO UPDATE SET title = excluded.title WHERE excluded.title <> ''",
            *(feed, owner, title.replace("\x00", "\ufffd"), now, address),
        )
    return feed


def _find(db: Database, address: str) -> int | None:
    """The feed at an address, or the one that moved away from there."""
    found = db.rows("SELECT id FROM feed WHERE url = ?", address)
    found = found or db.rows("SELECT feed FROM feed_moved WHERE url = ?", address)
    return int(found[0][0]) if found else None


def remove(db: Database, feed: int, owner: str | None) -> None:
    """An owner (None: all of them) follows it no longer; UnknownFeed where that was not so. The last takes it along."""
    known = -(1 << 63) <= feed < 1 << 63
    with db.write():
        whose, who = ("", ()) if owner is None else (" AND owner = ?", (owner,))
        gone = db.run(f"DELETE FROM feed_owner WHERE feed = ?{whose}", feed, *who) if known else 0
        if not gone:
            raise UnknownFeed(feed)
        if not db.rows("SELECT 1 FROM feed_owner WHERE feed = ? LIMIT 1", feed):
            _forget(db, feed)


def _forget(db: Database, feed: int) -> None:
    for table, column in (("feed", "id"), ("feed_known", "feed"), ("feed_moved", "feed"), ("feed_owner", "feed")):
        db.run(f"DELETE FROM {table} WHERE {column} = ?", feed)


def feeds(db: Database, owner: str | None) -> Iterator[Feed]:
    """In the order of their ids, read in pages."""
    mine = "feed_owner o JOIN feed f ON f.id = o.feed WHERE o.owner = ? AND"
    chosen, who = (f"{_MINE} FROM {mine}", (owner,)) if owner is not None else (f"{_ANYBODYS} FROM feed f WHERE", ())
    last = 0
    while page := db.rows(f"SELECT {chosen} f.id > ? ORDER BY f.id LIMIT {_PAGE}", *who, last):
        yield from (Feed(*row) for row in page)
        last = page[-1][0]


# the crawler's side


def due(db: Database, now: float, limit: int) -> list[DueFeed]:
    """The feeds that are due, those that have waited longest first."""
    sql = "SELECT id, url, due_at, visit FROM feed WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
    return [DueFeed(*row) for row in db.rows(sql, now, limit)]


def next_due_at(db: Database) -> float | None:
    """When the next feed is due; None where there is none."""
    found: float | None = db.rows("SELECT min(due_at) FROM feed")[0][0]
    return found


def known(db: Database, wanted: Sequence[int]) -> dict[int, str]:
    """What the crawler knows of the articles of these feeds, in its own words."""
    ids = np.array(wanted, np.int64)
    given = db.pairs(ids, np.zeros_like(ids))
    sql = f"SELECT k.feed, k.known FROM (SELECT a FROM {given.sql}) AS g JOIN feed_known k ON k.feed = g.a"
    return {int(feed): str(text) for feed, text in db.rows(sql, *given.parameters)}


def visited(db: Database, outcomes: Sequence[Visited]) -> int:
    """Store what visits led to, all in one transaction; how many posts went into the outbox.

    A feed that was removed meanwhile stays removed, and its articles stay here.
    """
    with db.write():
        posts: list[Mapping[str, Any]] = []
        for one in outcomes:
            if _note(db, one):
                posts += one.posts
        for start in range(0, len(posts), _OUTBOX_POSTS):
            lines = b"".join(map(_line, posts[start : start + _OUTBOX_POSTS]))
            text = lines.decode().replace("\\u0000", "\\ufffd")
            db.run("INSERT INTO outbox (number, posts) VALUES (?, ?)", counter(db, "outbox", 1) + 1, text)
    return len(posts)


def _note(db: Database, one: Visited) -> bool:
    """Whether the feed was still there to be noted; one that moved to another feed's address becomes that feed."""
    found = db.rows("SELECT url FROM feed WHERE id = ?", one.feed)
    if not found:
        return False
    sql = """UPDATE feed SET state = ?, checked_at = ?, due_at = ?, error = ?, visit = ?, articles = articles + ?,
        title = CASE WHEN ? <> '' THEN ? ELSE title END, site = CASE WHEN ? <> '' THEN ? ELSE site END WHERE id = ?"""
    told = (one.title, one.title, one.site, one.site)
    db.run(
        sql, one.state, one.checked_at, one.due_at, one.error, one.visit, len(one.posts), *map(_clean, told), one.feed
    )
    if one.known is not None:
        upsert = "ON CONFLICT (feed) DO UPDATE SET known = excluded.known"
        db.run(f"INSERT INTO feed_known (feed, known) VALUES (?, ?) {upsert}", one.feed, one.known)
    return _moved(db, one, str(found[0][0]))


def _clean(text: str) -> str:
    return text.replace("\x00", "\ufffd")


def _moved(db: Database, one: Visited, here: str) -> bool:
    """Remember a new address; False where another feed is there already, whose articles its crawler has."""
    if here == one.url:
        return True
    other = _find(db, one.url)
    stays = one.feed if other in (None, one.feed) else other
    db.run("DELETE FROM feed_moved WHERE url = ?", one.url)
    if stays == one.feed:
        db.run("UPDATE feed SET url = ? WHERE id = ?", one.url, one.feed)
    else:
        mine = "SELECT ?, owner, title, added_at, given FROM feed_owner WHERE feed = ?"
        sql = f"INSERT INTO feed_owner (feed, owner, title, added_at, given) {mine} ON CONFLICT DO NOTHING"
        db.run(sql, stays, one.feed)
        db.run("UPDATE feed_moved SET feed = ? WHERE feed = ?", stays, one.feed)
        _forget(db, one.feed)
    db.run("INSERT INTO feed_moved (url, feed) VALUES (?, ?)", here, stays)
    return stays == one.feed


def outbox(db: Database) -> Iterator[OutboxRow]:
    """What is on its way, in order."""
    last = 0
    while found := db.rows("SELECT number, posts FROM outbox WHERE number > ? ORDER BY number LIMIT 1", last):
        last, lines = found[0]
        yield OutboxRow(int(last), str(lines))


def sent(db: Database, number: int) -> None:
    """This row has arrived."""
    db.run("DELETE FROM outbox WHERE number = ?", number)
