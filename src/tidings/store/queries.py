"""Reading what was stored: matches from a cursor on, the ledger, rejected rows, sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from tidings.store.columns import original_id
from tidings.store.database import Database, Row
from tidings.store.rows import Batch, Rejected, Sizes, StoredMatch
from tidings.store.schema import ERA_BITS

_ERAS_AT_ONCE = 64
_AT_ONCE = 50  # rows, where they may be long: a post has up to a megabyte
_ABOVE_ALL = (1 << 63) - 1
_MATCH = """SELECT m.cursor, p.id, p.id_kind, p.text, p.time, p.author, p.lang, p.lat, p.lon, p.tags, p.title, p.link,
    p.arrived_at, m.index_version, m.batch"""
_MATCHES = (
    _MATCH
    + """ FROM match m JOIN post p ON p.number = m.post
    WHERE m.era IN ({}) AND m.subscription = ? AND m.cursor > ? ORDER BY m.cursor LIMIT ?"""
)
_LATEST = (
    _MATCH
    + """ FROM (SELECT cursor, post, index_version, batch FROM match
        WHERE era IN ({}) AND subscription = ? AND cursor < ? ORDER BY cursor DESC LIMIT ?) AS m
    JOIN post p ON p.number = m.post ORDER BY m.cursor DESC"""
)
_SIZES = """SELECT (SELECT count(*) FROM subscription WHERE removed_at IS NULL),
    (SELECT value FROM counter WHERE name = 'posts'), (SELECT coalesce(sum(kept), 0) FROM tally),
    (SELECT count(*) FROM batch), (SELECT count(*) FROM rejected)"""


def matches(
    db: Database, subscription: int, since: int, limit: int, most_characters: int | None = None
) -> list[StoredMatch]:
    """Up to `limit` matches with a cursor above `since`, in the order of their cursors; fewer where they are long."""
    found: list[Row] = []
    for eras in era_groups(db, since):
        sql = _MATCHES.format(", ".join(map(str, eras)))

        def page(count: int, sql: str = sql) -> list[Row]:
            return db.rows(sql, subscription, found[-1][0] if found else since, count)

        if _is_full(found, page, limit, most_characters):
            break
    return [_match(row) for row in found]


def latest(db: Database, subscription: int, limit: int, most_characters: int | None = None) -> list[StoredMatch]:
    """The newest matches, in the order of their cursors."""
    found: list[Row] = []
    for eras in reversed(list(era_groups(db))):
        sql = _LATEST.format(", ".join(map(str, eras)))

        def page(count: int, sql: str = sql) -> list[Row]:
            return db.rows(sql, subscription, found[-1][0] if found else _ABOVE_ALL, count)

        if _is_full(found, page, limit, most_characters):
            break
    return [_match(row) for row in reversed(found)]


def _is_full(found: list[Row], page: Callable[[int], list[Row]], limit: int, most_characters: int | None) -> bool:
    """Add rows, page by page so that never many long ones are held; whether there are as many as there may be."""
    while len(found) < limit:
        count = limit - len(found) if most_characters is None else min(_AT_ONCE, limit - len(found))
        rows = page(count)
        found += rows
        if most_characters is not None and _cut(found, most_characters):
            return True
        if len(rows) < count:
            return False
    return True


def _cut(found: list[Row], most_characters: int) -> bool:
    """Leave out the rows beyond so many characters, but never the first; whether there were any."""
    ends = accumulate(sum(len(value) for value in row if isinstance(value, str)) for row in found)
    fitting = max(1, sum(end <= most_characters for end in ends))
    is_cut = fitting < len(found)
    del found[fitting:]
    return is_cut


def kept(db: Database, subscription: int) -> int:
    """How many matches of it are kept."""
    found = db.rows("SELECT kept FROM tally WHERE subscription = ?", subscription)
    return int(found[0][0]) if found else 0


def last_number(db: Database) -> int:
    """The last number given to a post or a match."""
    return int(db.rows("SELECT value FROM counter WHERE name = 'number'")[0][0])


def era_groups(db: Database, since: int = 0) -> Iterator[range]:
    """The eras that may hold matches after this cursor, the oldest first, a few at a time."""
    sql = "SELECT min(era), (SELECT value FROM counter WHERE name = 'number') FROM match"
    ((oldest, number),) = db.rows(sql)
    if oldest is None:
        return
    end = (number >> ERA_BITS) + 1
    for start in range(max(oldest, since >> ERA_BITS), end, _ERAS_AT_ONCE):
        yield range(start, min(start + _ERAS_AT_ONCE, end))


def _match(row: Row) -> StoredMatch:
    cursor, identity, kind, text, time, author, lang, lat, lon, tags, *rest = row
    told = (text, time, author, lang, lat, lon)
    return StoredMatch(cursor, original_id(identity, kind), *told, json.loads(tags or "[]"), *rest)


def ledger(db: Database, stream: str | None, last: int) -> list[Batch]:
    """The batches begun last, the oldest of them first."""
    sql = """SELECT stream, batch, index_version, plan_version, state, started_at, finished_at, posts, matches,
        rejected, shed, figures FROM batch {} ORDER BY started_at DESC, batch DESC LIMIT ?"""
    chosen = () if stream is None else (stream,)
    found = db.rows(sql.format("WHERE stream = ?" if chosen else ""), *chosen, last)
    return [_batch(row) for row in reversed(found)]


def _batch(row: Row) -> Batch:
    *told, shed, figures = row
    parts: tuple[Any, ...] = (*told, json.loads(figures), shed)
    return Batch(*parts)


def rejected(db: Database, last: int) -> list[Rejected]:
    """The rows rejected last, the oldest of them first."""
    sql = "SELECT number, stream, batch, source, source_row, reason, excerpt FROM rejected ORDER BY number DESC LIMIT ?"
    return [Rejected(*row) for row in reversed(db.rows(sql, last))]


def sizes(db: Database) -> Sizes:
    subscriptions, posts, matches_, batches, rejected_ = map(int, db.rows(_SIZES)[0])
    return Sizes(subscriptions, posts, matches_, batches, rejected_, db.bytes_used())
