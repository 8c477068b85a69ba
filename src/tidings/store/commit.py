"""Storing one batch in one transaction, part by part: posts once each, matches once each, the ledger last.

Numbers make it cheap. Every post of a batch is given the next number of one counter. A post never seen before keeps it,
and its matches have it as their cursor, so nothing needs to be looked up. A post that is stored already (it came again,
after a new subscription) stays as it is, and the number given now becomes the cursor of what is newly found for it: a
*late* match, one whose cursor is not the number of its post.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidings.errors import StoreError
from tidings.store import shed_totals
from tidings.store.columns import MAX_REJECTED_A_BATCH, numbered, rejected_columns
from tidings.store.database import Database, Whole
from tidings.store.dedup import Hits, distinct, once, runs, sorted_once
from tidings.store.rows import Stored
from tidings.store.schema import ERA_BITS
from tidings.store.shed_totals import ShedCounts

_MOMENT_S = 60.0
_MANY = 1 << (ERA_BITS - 2)  # so there are four times as many eras at most, through which who reads must go
_NOTHING_SHED = ShedCounts()
_NONE_YET = "Batch {} of stream {!r} was never begun; call begin() first."

_NEW = f"""INSERT INTO match (era, subscription, cursor, post, index_version, batch)
    SELECT (hit.b + ?) >> {ERA_BITS}, hit.a, hit.b + ?, hit.b + ?, ?, ? FROM (SELECT a, b FROM {{}}) AS hit"""
_LATE = f"""INSERT INTO match (era, subscription, cursor, post, index_version, batch)
    SELECT (hit.b + ?) >> {ERA_BITS}, hit.a, hit.b + ?, known.a, ?, ?
    FROM (SELECT a, b FROM {{}}) AS hit JOIN known_post AS known ON known.b = hit.b
    WHERE NOT EXISTS (SELECT 1 FROM match m
        WHERE m.era = known.a >> {ERA_BITS} AND m.subscription = hit.a AND m.cursor = known.a)
    AND NOT EXISTS (SELECT 1 FROM match m
        WHERE m.post = known.a AND m.subscription = hit.a AND m.cursor <> m.post)
    RETURNING subscription, post"""
_TALLY = """INSERT INTO tally (subscription, kept) SELECT a, b FROM {} WHERE true
    ON CONFLICT (subscription) DO UPDATE SET kept = tally.kept + excluded.kept"""
_DEAD = """SELECT a FROM {} WHERE NOT EXISTS
    (SELECT 1 FROM subscription s WHERE s.id = a AND s.removed_at IS NULL)"""
_KNOWN = "SELECT place, number FROM {} CROSS JOIN post p WHERE p.id = value AND p.id_kind = ?"


class Stamp(NamedTuple):
    """What every match of a commit carries, and when it is."""

    index_version: int
    batch: int
    now: float


class Found(NamedTuple):
    """A part of what a batch found, as `Store.commit` takes it; `matches` refer to the posts of the same part."""

    posts: pa.Table
    matches: pa.Table
    rejected: pa.Table


def commit(
    db: Database,
    key: tuple[str, int],
    parts: Iterable[Found],
    figures: Mapping[str, object],
    now: float,
    before_commit: Callable[[], None],
    shed: ShedCounts = _NOTHING_SHED,
) -> Stored:
    """Store the batch; nothing at all if it is stored already."""
    with db.write():
        found = db.rows("SELECT state, index_version FROM batch WHERE stream = ? AND batch = ?", *key)
        if not found:
            raise StoreError(_NONE_YET.format(key[1], key[0]))
        if found[0][0] == "done":
            return Stored(0, 0, sum(len(part.matches) for part in parts), 0)
        stored = Stored(0, 0, 0, 0)
        for part in parts:
            stored = _store_part(db, key, part, stored, Stamp(found[0][1], key[1], now))
        shed_totals.add(db, shed)
        _close(db, key, stored, figures, now)
        before_commit()
    return stored


def _store_part(db: Database, key: tuple[str, int], part: Found, before: Stored, stamp: Stamp) -> Stored:
    """Store a part; what is stored of the batch by then."""
    stored, unfit = _store_matches(db, part.posts, part.matches, stamp)
    rejected = _store_rejected(db, key, part.rejected, unfit, before.rejected)
    known = len(part.matches) - stored.matches
    added = (stored.posts, stored.matches, known, rejected)
    return Stored(*(one + other for one, other in zip(before, added, strict=True)))


def counter(db: Database, name: str, step: int) -> int:
    """Move a counter on by `step`; its value before."""
    sql = "UPDATE counter SET value = value + ? WHERE name = ? RETURNING value"
    return int(db.rows(sql, step, name)[0][0]) - step


def _first_number(db: Database, count: int) -> int:
    """Take so many numbers. Many begin an era of their own: its matches are then written one behind the other."""
    if count >= _MANY:
        given = counter(db, "number", 0)
        counter(db, "number", -(given + 1) % (1 << ERA_BITS))
    return counter(db, "number", count) + 1


def _store_matches(db: Database, posts: pa.Table, matches: pa.Table, stamp: Stamp) -> tuple[Stored, pa.Table | None]:
    hits = _live(db, Hits(_whole(matches["subscription"]), _whole(matches["post_row"])))
    if not len(hits.places):
        return Stored(0, 0, 0, 0), None
    columns, kind, hits, unfit = distinct(posts, hits)
    hits = once(hits)
    first = _first_number(db, len(columns))
    added = _store_posts(db, columns, kind, hits, first, stamp)
    known = Hits(np.empty(0, np.int64), np.empty(0, np.int64))
    if added < len(columns):
        known = _known(db, columns["id"].to_pylist(), kind, first)
    fresh = np.ones(len(columns), np.bool_)
    fresh[known.places] = False
    is_fresh = fresh[hits.places]
    count = _store_new(db, hits.where(is_fresh), first, stamp)
    count += _store_late(db, hits.where(~is_fresh), known, first, stamp)
    _note_moment(db, first + len(columns) - 1, stamp.now)
    return Stored(added, count, 0, 0), unfit


def _whole(column: pa.ChunkedArray) -> Whole:
    array: Whole = column.combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
    return array


def _live(db: Database, hits: Hits) -> Hits:
    """Without those of subscriptions that are gone (or were never there)."""
    asked = sorted_once(hits.subscriptions)
    given = db.pairs(asked, np.zeros_like(asked))
    dead = db.rows(_DEAD.format(given.sql), *given.parameters)
    if not dead:
        return hits
    return hits.where(~np.isin(hits.subscriptions, np.array([a for (a,) in dead], np.int64)))


def _store_posts(db: Database, columns: pa.Table, kind: int, hits: Hits, first: int, stamp: Stamp) -> int:
    refs = pa.array(np.bincount(hits.places, minlength=len(columns)).astype(np.int64))
    fixed: dict[str, object] = {"id_kind": kind}
    if "arrived_at" not in columns.column_names:
        fixed["arrived_at"] = stamp.now
    added = db.append("post", numbered(columns, first).append_column("refs", refs), fixed)
    counter(db, "posts", added)
    return added


def _known(db: Database, ids: list[str], kind: int, first: int) -> Hits:
    """The posts that were stored before this commit: their numbers, and the places of their ids."""
    given = db.texts(ids)
    found = db.rows(_KNOWN.format(given.sql), *given.parameters, kind)
    pairs = np.array(found, np.int64).reshape(-1, 2)
    older = pairs[pairs[:, 1] < first]
    return Hits(older[:, 1], older[:, 0])


def _store_new(db: Database, hits: Hits, first: int, stamp: Stamp) -> int:
    given = db.pairs(*hits)
    db.run(_NEW.format(given.sql), first, first, first, stamp.index_version, stamp.batch, *given.parameters)
    _add_to_tally(db, hits.subscriptions)
    return len(hits.places)


def _store_late(db: Database, hits: Hits, known: Hits, first: int, stamp: Stamp) -> int:
    if not len(hits.places):
        return 0
    given, posts = db.pairs(*hits), db.pairs(*known)
    db.run("CREATE TEMP TABLE known_post (b BIGINT PRIMARY KEY, a BIGINT)")  # both databases join by its key
    db.run(f"INSERT INTO known_post (a, b) SELECT a, b FROM {posts.sql}", *posts.parameters)
    values = (first, first, stamp.index_version, stamp.batch)
    added = np.array(db.rows(_LATE.format(given.sql), *values, *given.parameters), np.int64).reshape(-1, 2)
    db.run("DROP TABLE known_post")
    _add_to_tally(db, added[:, 0])
    change_refs(db, added[:, 1], "+")
    return len(added)


def _add_to_tally(db: Database, subscriptions: Whole) -> None:
    given = db.pairs(*runs(np.sort(subscriptions)))
    db.run(_TALLY.format(given.sql), *given.parameters)


def change_refs(db: Database, posts: Whole, sign: str) -> None:
    """Count up or down how many matches refer to these posts, which may be listed more than once."""
    given = db.pairs(*runs(np.sort(posts)))
    sql = f"UPDATE post SET refs = refs {sign} g.b FROM (SELECT a, b FROM {given.sql}) AS g WHERE post.number = g.a"
    db.run(sql, *given.parameters)


def _note_moment(db: Database, number: int, now: float) -> None:
    """Once for every minute: by then these numbers had been given. From it retention knows how old a match is."""
    at = max(now, db.rows("SELECT coalesce(max(at), 0) FROM moment")[0][0])  # clocks may be set back
    sql = """INSERT INTO moment (minute, at, number) VALUES (?, ?, ?)
        ON CONFLICT (minute) DO UPDATE SET at = excluded.at, number = excluded.number"""
    db.run(sql, int(at // _MOMENT_S), at, number)


def _store_rejected(db: Database, key: tuple[str, int], rejected: pa.Table, unfit: pa.Table | None, before: int) -> int:
    """Keep the first of a batch; `before` came with other parts of it. How many there are."""
    columns = rejected_columns(rejected)
    if unfit is not None:
        columns = pa.concat_tables([rejected_columns(unfit), columns])
    columns = columns.slice(0, max(0, MAX_REJECTED_A_BATCH - before))
    first = counter(db, "rejected", len(columns)) + 1
    db.append("rejected", numbered(columns, first), {"stream": key[0], "batch": key[1]})
    return len(rejected) + (0 if unfit is None else len(unfit))


def _close(db: Database, key: tuple[str, int], stored: Stored, figures: Mapping[str, object], now: float) -> None:
    sql = """UPDATE batch SET state = 'done', finished_at = ?, posts = ?, matches = ?, rejected = ?, figures = ?
        WHERE stream = ? AND batch = ?"""
    db.run(sql, now, stored.posts, stored.matches, stored.rejected, json.dumps(dict(figures)), *key)
