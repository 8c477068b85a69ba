"""Stored matches: those after a cursor, and the newest ones.

Matches lie on disk by era, see `schema.ERA_BITS`; queries go through the eras in groups.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import numpy as np

from tidings.store.columns import TEXT_ID, restore_id
from tidings.store.counters import read_counter
from tidings.store.database import Database, Row
from tidings.store.rows import MAX_INT64, StoredMatch
from tidings.store.schema import ERA_BITS
from tidings.store.subscriptions import Subscriptions

_ERAS_PER_QUERY = 64
_LONG_ROWS_PER_QUERY = 50  # with a limit of characters: a post has up to a megabyte
_MATCH = """SELECT m.cursor, p.id, p.id_kind, p.text, p.time, p.author, p.lang, p.lat, p.lon, p.tags, p.title, p.link,
    p.arrived_at, m.index_version, m.batch"""
_SINCE = (
    _MATCH
    + """ FROM match m JOIN post p ON p.number = m.post
    WHERE m.era IN ({}) AND m.subscription = ? AND m.cursor > ?{} ORDER BY m.cursor LIMIT ?"""
)
_NOT_BACKLOG = f" AND NOT EXISTS (SELECT 1 FROM backlog_post b WHERE b.id = p.id AND p.id_kind = {TEXT_ID})"
_LATEST = (
    _MATCH
    + """ FROM (SELECT cursor, post, index_version, batch FROM match
        WHERE era IN ({}) AND subscription = ? AND cursor < ? ORDER BY cursor DESC LIMIT ?) AS m
    JOIN post p ON p.number = m.post ORDER BY m.cursor DESC"""
)

_CHANGED = """SELECT s.id, t.kept FROM subscription s JOIN tally t ON t.subscription = s.id
    WHERE s.owner = ? AND s.removed_at IS NULL AND EXISTS (
        SELECT 1 FROM match m WHERE m.era IN ({}) AND m.subscription = s.id AND m.cursor > ?)"""

_CHANGED_AMONG = """SELECT w.a FROM (SELECT a FROM {}) AS w WHERE EXISTS (
    SELECT 1 FROM match m WHERE m.era IN ({}) AND m.subscription = w.a AND m.cursor > ?)"""
_REMOVED_AMONG = """SELECT w.a FROM (SELECT a FROM {}) AS w WHERE NOT EXISTS (
    SELECT 1 FROM subscription s WHERE s.id = w.a AND s.removed_at IS NULL)"""


class Matches:
    """The matches of a store.

    With `max_characters` a page has fewer matches where posts are long, but at least one. With `owner`, `since` and
    `latest` raise UnknownSubscription for subscriptions of other owners.
    """

    def __init__(self, database: Database, subscriptions: Subscriptions) -> None:
        self._db, self._subscriptions = database, subscriptions

    def since(
        self,
        subscription: int,
        cursor: int = 0,
        limit: int = 100,
        owner: str | None = None,
        max_characters: int | None = None,
    ) -> list[StoredMatch]:
        """Return the matches after a cursor, by cursor. Later matches have larger cursors, so paging misses none."""
        self._subscriptions.require(subscription, owner)
        return read_matches(self._db, subscription, cursor, limit, max_characters)

    def latest(
        self,
        subscription: int,
        limit: int = 100,
        owner: str | None = None,
        max_characters: int | None = None,
        before: int = MAX_INT64,
    ) -> list[StoredMatch]:
        """Return the newest matches before a cursor, oldest first."""
        self._subscriptions.require(subscription, owner)
        rows: list[Row] = []
        for eras in reversed(list(era_groups(self._db))):
            sql = _LATEST.format(", ".join(map(str, eras)))

            def read_page(count: int, sql: str = sql) -> list[Row]:
                return self._db.fetch(sql, subscription, rows[-1][0] if rows else before, count)

            if _fill(rows, read_page, limit, max_characters):
                break
        return [_from_row(row) for row in reversed(rows)]

    def count(self, subscription: int) -> int:
        """Return how many matches of a subscription are stored."""
        rows = self._db.fetch("SELECT kept FROM tally WHERE subscription = ?", subscription)
        return int(rows[0][0]) if rows else 0

    def changed_since(self, owner: str, number: int) -> dict[int, int]:
        """Return the subscriptions of an owner with matches after a number, and how many matches each has now."""
        changed: dict[int, int] = {}
        for eras in era_groups(self._db, number):
            changed.update(self._db.fetch(_CHANGED.format(", ".join(map(str, eras))), owner, number))
        return changed

    def changed_among(self, subscriptions: Sequence[int], number: int) -> set[int]:
        """Return those of the subscriptions that have matches after a number or were removed, in a few queries."""
        if not subscriptions:
            return set()
        ids = np.array(subscriptions, np.int64)
        bound = self._db.bind_pairs(ids, np.zeros_like(ids))
        changed = {int(row[0]) for row in self._db.fetch(_REMOVED_AMONG.format(bound.sql), *bound.parameters)}
        for eras in era_groups(self._db, number):
            sql = _CHANGED_AMONG.format(bound.sql, ", ".join(map(str, eras)))
            changed.update(int(row[0]) for row in self._db.fetch(sql, *bound.parameters, number))
        return changed

    def last_number(self) -> int:
        """Return the last number given to a post or match: it grows with every match of any subscription."""
        return read_counter(self._db, "number")


def read_matches(
    db: Database,
    subscription: int,
    cursor: int,
    limit: int,
    max_characters: int | None = None,
    with_backlog: bool = True,
) -> list[StoredMatch]:
    """Return up to `limit` matches after a cursor, by cursor, also of removed subscriptions.

    Without backlog: without articles that a feed had before it was added, see `Feeds.record_visits`.
    """
    rows: list[Row] = []
    for eras in era_groups(db, cursor):
        sql = _SINCE.format(", ".join(map(str, eras)), "" if with_backlog else _NOT_BACKLOG)

        def read_page(count: int, sql: str = sql) -> list[Row]:
            return db.fetch(sql, subscription, rows[-1][0] if rows else cursor, count)

        if _fill(rows, read_page, limit, max_characters):
            break
    return [_from_row(row) for row in rows]


def era_groups(db: Database, cursor: int = 0) -> Iterator[range]:
    """Return the eras that may hold matches after this cursor, oldest first, in groups for one query each."""
    sql = "SELECT min(era), (SELECT value FROM counter WHERE name = 'number') FROM match"
    ((oldest, number),) = db.fetch(sql)
    if oldest is None:
        return
    end = (number >> ERA_BITS) + 1
    for start in range(max(oldest, cursor >> ERA_BITS), end, _ERAS_PER_QUERY):
        yield range(start, min(start + _ERAS_PER_QUERY, end))


def _fill(rows: list[Row], read_page: Callable[[int], list[Row]], limit: int, max_characters: int | None) -> bool:
    """Add pages, small ones where rows may be long, and return whether a limit is reached."""
    while len(rows) < limit:
        count = limit - len(rows) if max_characters is None else min(_LONG_ROWS_PER_QUERY, limit - len(rows))
        page = read_page(count)
        rows += page
        if max_characters is not None and _truncate(rows, max_characters):
            return True
        if len(page) < count:
            return False
    return True


def _truncate(rows: list[Row], max_characters: int) -> bool:
    """Drop the rows beyond a number of characters, but never the first; return whether any were dropped."""
    ends = accumulate(sum(len(value) for value in row if isinstance(value, str)) for row in rows)
    fitting = max(1, sum(end <= max_characters for end in ends))
    is_truncated = fitting < len(rows)
    del rows[fitting:]
    return is_truncated


def _from_row(row: Row) -> StoredMatch:
    cursor, identity, kind, text, time, author, lang, lat, lon, tags, *rest = row
    tag_list = json.loads(tags or "[]")
    return StoredMatch(cursor, restore_id(identity, kind), text, time, author, lang, lat, lon, tag_list, *rest)
