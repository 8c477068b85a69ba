"""Commit one batch in one transaction, chunk by chunk: posts once, matches once, the ledger last.

Numbers make this cheap. Every post of a batch gets the next number of one counter. A new post keeps it, and its matches
use it as their cursor, so nothing is looked up. A post that is stored already (it arrived again, after a new
subscription) stays as it is, and its new number becomes the cursor of its new matches: *late* matches, whose cursor is
not the number of their post.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidings.errors import StoreError
from tidings.store.columns import MAX_REJECTED_PER_BATCH, append_numbers, rejected_columns
from tidings.store.counters import advance_counter, read_counter
from tidings.store.database import Database, Int64Array
from tidings.store.dedup import MatchRows, count_runs, distinct_matches, distinct_posts, sorted_distinct
from tidings.store.rows import CommitResult
from tidings.store.schema import ERA_BITS
from tidings.store.shed_totals import NOTHING_SHED, ShedCounts, add_shed_counts

_MOMENT_S = 60.0
_NEW_ERA_POSTS = 1 << (ERA_BITS - 2)  # at most four times as many eras as necessary, which readers must go through

_INSERT_NEW = f"""INSERT INTO match (era, subscription, cursor, post, index_version, batch)
    SELECT (hit.b + ?) >> {ERA_BITS}, hit.a, hit.b + ?, hit.b + ?, ?, ? FROM (SELECT a, b FROM {{}}) AS hit"""
_INSERT_LATE = f"""INSERT INTO match (era, subscription, cursor, post, index_version, batch)
    SELECT (hit.b + ?) >> {ERA_BITS}, hit.a, hit.b + ?, known.a, ?, ?
    FROM (SELECT a, b FROM {{}}) AS hit JOIN known_post AS known ON known.b = hit.b
    WHERE NOT EXISTS (SELECT 1 FROM match m
        WHERE m.era = known.a >> {ERA_BITS} AND m.subscription = hit.a AND m.cursor = known.a)
    AND NOT EXISTS (SELECT 1 FROM match m
        WHERE m.post = known.a AND m.subscription = hit.a AND m.cursor <> m.post)
    RETURNING subscription, post"""
_ADD_TO_TALLY = """INSERT INTO tally (subscription, kept) SELECT a, b FROM {} WHERE true
    ON CONFLICT (subscription) DO UPDATE SET kept = tally.kept + excluded.kept"""
_REMOVED = """SELECT a FROM {} WHERE NOT EXISTS
    (SELECT 1 FROM subscription s WHERE s.id = a AND s.removed_at IS NULL)"""
_KNOWN_POSTS = "SELECT row_index, number FROM {} CROSS JOIN post p WHERE p.id = value AND p.id_kind = ?"


class _Stamp(NamedTuple):
    """Values that all matches of a commit share."""

    index_version: int
    batch: int
    now: float


class BatchChunk(NamedTuple):
    """A part of the results of a batch, see `BatchLedger.commit`; `matches` refer to `posts` of the same chunk.

    What a sink received instead of the store is only counted: `delivered_posts`, `delivered_matches`.
    """

    posts: pa.Table
    matches: pa.Table
    rejected: pa.Table
    delivered_posts: int = 0
    delivered_matches: int = 0


def commit_batch(
    db: Database,
    key: tuple[str, int],
    chunks: Iterable[BatchChunk],
    metrics: Mapping[str, object],
    now: float,
    before_commit: Callable[[], None],
    shed: ShedCounts = NOTHING_SHED,
) -> CommitResult:
    """Store the results of a batch; do nothing if it is done already."""
    with db.transaction():
        rows = db.fetch("SELECT state, index_version FROM batch WHERE stream = ? AND batch = ?", *key)
        if not rows:
            raise StoreError(f"Batch {key[1]} of stream {key[0]!r}: it has not begun. Call begin() first.")
        state, index_version = rows[0]
        if state == "done":
            return CommitResult(0, 0, sum(len(chunk.matches) for chunk in chunks), 0)
        total = CommitResult(0, 0, 0, 0)
        for chunk in chunks:
            total = _store_chunk(db, key, chunk, total, _Stamp(index_version, key[1], now))
        add_shed_counts(db, shed)
        _mark_done(db, key, total, metrics, now)
        before_commit()
    return total


def _store_chunk(
    db: Database, key: tuple[str, int], chunk: BatchChunk, total: CommitResult, stamp: _Stamp
) -> CommitResult:
    """Store a chunk and return the new total of the batch."""
    posts, matches, without_id = _store_matches(db, chunk.posts, chunk.matches, stamp)
    rejected = _store_rejected(db, key, chunk.rejected, without_id, total.rejected)
    return CommitResult(
        posts=total.posts + posts + chunk.delivered_posts,
        matches=total.matches + matches + chunk.delivered_matches,
        known=total.known + len(chunk.matches) - matches,
        rejected=total.rejected + rejected,
    )


def _take_numbers(db: Database, count: int) -> int:
    """Reserve numbers and return the first. Many posts start a new era: their matches are then written in order."""
    if count >= _NEW_ERA_POSTS:
        last = read_counter(db, "number")
        advance_counter(db, "number", -(last + 1) % (1 << ERA_BITS))
    return advance_counter(db, "number", count) + 1


def _store_matches(
    db: Database, posts: pa.Table, match_table: pa.Table, stamp: _Stamp
) -> tuple[int, int, pa.Table | None]:
    """Return the number of new posts, the number of new matches, and the posts rejected for their id."""
    matches = _of_live_subscriptions(
        db, MatchRows(_to_int64(match_table["subscription"]), _to_int64(match_table["post_row"]))
    )
    if not len(matches.post_rows):
        return 0, 0, None
    columns, kind, matches, without_id = distinct_posts(posts, matches)
    matches = distinct_matches(matches)
    first = _take_numbers(db, len(columns))
    added = _store_posts(db, columns, kind, matches, first, stamp)
    known = MatchRows(np.empty(0, np.int64), np.empty(0, np.int64))
    if added < len(columns):
        known = _known_posts(db, columns["id"].to_pylist(), kind, first)
    is_new_post = np.ones(len(columns), np.bool_)
    is_new_post[known.post_rows] = False
    is_new = is_new_post[matches.post_rows]
    count = _store_new(db, matches.where(is_new), first, stamp)
    count += _store_late(db, matches.where(~is_new), known, first, stamp)
    _record_moment(db, first + len(columns) - 1, stamp.now)
    return added, count, without_id


def _to_int64(column: pa.ChunkedArray) -> Int64Array:
    array: Int64Array = column.combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
    return array


def _of_live_subscriptions(db: Database, matches: MatchRows) -> MatchRows:
    """Drop the matches of subscriptions that were removed or never existed."""
    subscriptions = sorted_distinct(matches.subscriptions)
    bound = db.bind_pairs(subscriptions, np.zeros_like(subscriptions))
    removed = db.fetch(_REMOVED.format(bound.sql), *bound.parameters)
    if not removed:
        return matches
    return matches.where(~np.isin(matches.subscriptions, np.array([id_ for (id_,) in removed], np.int64)))


def _store_posts(db: Database, columns: pa.Table, kind: int, matches: MatchRows, first: int, stamp: _Stamp) -> int:
    refs = pa.array(np.bincount(matches.post_rows, minlength=len(columns)).astype(np.int64))
    fixed: dict[str, object] = {"id_kind": kind}
    if "arrived_at" not in columns.column_names:
        fixed["arrived_at"] = stamp.now
    added = db.insert("post", append_numbers(columns, first).append_column("refs", refs), fixed)
    advance_counter(db, "posts", added)
    return added


def _known_posts(db: Database, ids: list[str], kind: int, first: int) -> MatchRows:
    """Return the posts stored before this commit: their numbers (as `subscriptions`) and the rows of their ids."""
    bound = db.bind_texts(ids)
    rows = db.fetch(_KNOWN_POSTS.format(bound.sql), *bound.parameters, kind)
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    older = pairs[pairs[:, 1] < first]
    return MatchRows(older[:, 1], older[:, 0])


def _store_new(db: Database, matches: MatchRows, first: int, stamp: _Stamp) -> int:
    bound = db.bind_pairs(*matches)
    db.execute(_INSERT_NEW.format(bound.sql), first, first, first, stamp.index_version, stamp.batch, *bound.parameters)
    _add_to_tally(db, matches.subscriptions)
    return len(matches.post_rows)


def _store_late(db: Database, matches: MatchRows, known: MatchRows, first: int, stamp: _Stamp) -> int:
    if not len(matches.post_rows):
        return 0
    bound, posts = db.bind_pairs(*matches), db.bind_pairs(*known)
    db.execute("CREATE TEMP TABLE known_post (b BIGINT PRIMARY KEY, a BIGINT)")  # both databases join by its key
    db.execute(f"INSERT INTO known_post (a, b) SELECT a, b FROM {posts.sql}", *posts.parameters)
    values = (first, first, stamp.index_version, stamp.batch)
    added = np.array(db.fetch(_INSERT_LATE.format(bound.sql), *values, *bound.parameters), np.int64).reshape(-1, 2)
    db.execute("DROP TABLE known_post")
    _add_to_tally(db, added[:, 0])
    change_refs(db, added[:, 1], "+")
    return len(added)


def _add_to_tally(db: Database, subscriptions: Int64Array) -> None:
    bound = db.bind_pairs(*count_runs(np.sort(subscriptions)))
    db.execute(_ADD_TO_TALLY.format(bound.sql), *bound.parameters)


def change_refs(db: Database, posts: Int64Array, sign: str) -> None:
    """Add or subtract one reference per listed post; posts may be listed more than once."""
    bound = db.bind_pairs(*count_runs(np.sort(posts)))
    sql = f"UPDATE post SET refs = refs {sign} g.b FROM (SELECT a, b FROM {bound.sql}) AS g WHERE post.number = g.a"
    db.execute(sql, *bound.parameters)


def _record_moment(db: Database, number: int, now: float) -> None:
    """Record the last number of this minute; retention derives the age of matches from it."""
    at = max(now, db.fetch("SELECT coalesce(max(at), 0) FROM moment")[0][0])  # a clock may be set back
    sql = """INSERT INTO moment (minute, at, number) VALUES (?, ?, ?)
        ON CONFLICT (minute) DO UPDATE SET at = excluded.at, number = excluded.number"""
    db.execute(sql, int(at // _MOMENT_S), at, number)


def _store_rejected(
    db: Database, key: tuple[str, int], rejected: pa.Table, without_id: pa.Table | None, before: int
) -> int:
    """Store the first rejected rows of a batch, `before` of which came earlier; return how many there are."""
    columns = rejected_columns(rejected)
    if without_id is not None:
        columns = pa.concat_tables([rejected_columns(without_id), columns])
    columns = columns.slice(0, max(0, MAX_REJECTED_PER_BATCH - before))
    first = advance_counter(db, "rejected", len(columns)) + 1
    db.insert("rejected", append_numbers(columns, first), {"stream": key[0], "batch": key[1]})
    return len(rejected) + (0 if without_id is None else len(without_id))


def _mark_done(
    db: Database, key: tuple[str, int], total: CommitResult, metrics: Mapping[str, object], now: float
) -> None:
    sql = """UPDATE batch SET state = 'done', finished_at = ?, posts = ?, matches = ?, rejected = ?, figures = ?
        WHERE stream = ? AND batch = ?"""
    db.execute(sql, now, total.posts, total.matches, total.rejected, json.dumps(dict(metrics)), *key)
