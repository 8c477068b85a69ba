"""Delete rows that exceed the retention limits by count or age. Every step is a short transaction: batches hardly wait.

Matches are deleted before their posts, so a reader never sees a match without its post. Numbers are never reused, so
cursors keep growing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from tidings.store.columns import TEXT_ID
from tidings.store.commit import change_refs
from tidings.store.counters import advance_counter, read_counter
from tidings.store.database import Database, Int64Array, Row
from tidings.store.matches import era_groups
from tidings.store.rows import MAX_INT64, Retention, RetentionResult
from tidings.store.schema import ERA_BITS

_ROWS_PER_STEP = 5_000  # deleted in one transaction
_SUBSCRIPTIONS_PER_STEP = 200  # checked in one transaction
_PAUSE_S = 0.002  # between steps: locks are not fair, and a commit may wait
_SURPLUS = """SELECT t.subscription, t.kept - CASE WHEN s.removed_at IS NULL THEN ? ELSE 0 END
    FROM tally t LEFT JOIN subscription s ON s.id = t.subscription
    WHERE t.kept > CASE WHEN s.removed_at IS NULL THEN ? ELSE 0 END AND t.subscription > ?
    ORDER BY t.subscription LIMIT ?"""
_OLDEST = "SELECT era, cursor, post FROM match WHERE era IN ({}) AND subscription = ? ORDER BY cursor LIMIT ?"
_ORPHANS = """DELETE FROM post WHERE number > ? AND number <= ? AND NOT EXISTS
    (SELECT 1 FROM match m WHERE m.post = post.number AND m.cursor <> m.post)"""
_RECOUNT = """UPDATE post SET refs = (SELECT count(*) FROM match m WHERE m.post = post.number AND m.cursor <> m.post)
    WHERE number > ? AND number <= ?"""


def apply_retention(db: Database, limits: Retention, now: float) -> RetentionResult:
    """Delete what exceeds the limits."""
    before = read_counter(db, "posts")
    matches = _delete_old(db, _last_number_before(db, now - limits.max_age_s))
    matches += _delete_surplus(db, limits.max_matches_per_subscription)
    after = read_counter(db, "posts")
    batches = _delete_batches(db, limits.max_batches)
    with db.transaction():
        last = read_counter(db, "rejected") - limits.max_rejected
        rejected = db.execute("DELETE FROM rejected WHERE number <= ?", last)
    _delete_changes(db, now - limits.max_age_s)
    _delete_backlog(db, now - limits.max_age_s)
    db.reclaim_space()
    return RetentionResult(matches, max(0, before - after), batches, rejected)


def _last_number_before(db: Database, then: float) -> int:
    """Return the last number given out before a time."""
    with db.transaction():
        last = db.fetch("SELECT coalesce(max(number), 0) FROM moment WHERE at <= ?", then)[0][0]
        db.execute("DELETE FROM moment WHERE number < ?", last)
    return int(last)


def _delete_old(db: Database, last: int) -> int:
    """Delete matches with cursors up to `last`, then posts up to it without later matches; return the matches."""
    count = 0
    for eras in era_groups(db):
        for era in eras:
            if era <= last >> ERA_BITS:
                count += sum(_delete_range(db, era, low, high, last) for low, high in _subscription_ranges(db, era))
    for low, high in _post_ranges(db, last):
        with db.transaction():
            advance_counter(db, "posts", -db.execute(_ORPHANS, low, high))
            db.execute(_RECOUNT, low, high)
        time.sleep(_PAUSE_S)
    return count


def _subscription_ranges(db: Database, era: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of subscriptions that cover an era, each with about one step of matches."""
    sql = "SELECT subscription FROM match WHERE era = ? AND subscription > ? ORDER BY subscription LIMIT 1 OFFSET ?"
    low = 0
    while rows := db.fetch(sql, era, low, _ROWS_PER_STEP):
        yield low, rows[0][0]
        low = rows[0][0]
    yield low, MAX_INT64


def _delete_range(db: Database, era: int, low: int, high: int, last: int) -> int:
    sql = """DELETE FROM match WHERE era = ? AND subscription > ? AND subscription <= ? AND cursor <= ?
        RETURNING subscription"""
    with db.transaction():
        deleted = _to_array(db.fetch(sql, era, low, high, last))
        _subtract_from_tally(db, deleted)
    time.sleep(_PAUSE_S)
    return len(deleted)


def _post_ranges(db: Database, last: int) -> Iterator[tuple[int, int]]:
    sql = f"SELECT number FROM post WHERE number > ? AND number <= ? ORDER BY number LIMIT 1 OFFSET {_ROWS_PER_STEP}"
    low = 0
    while rows := db.fetch(sql, low, last):
        yield low, rows[0][0]
        low = rows[0][0]
    yield low, last


def _delete_surplus(db: Database, limit: int) -> int:
    """Delete the oldest matches of subscriptions that have too many, and all of removed subscriptions."""
    count, last = 0, 0
    while True:
        with db.transaction():
            surplus = db.fetch(_SURPLUS, limit, limit, last, _SUBSCRIPTIONS_PER_STEP)
            deleted, last = _delete_oldest(db, surplus)
        if not surplus:
            return count
        count += deleted
        time.sleep(_PAUSE_S)


def _delete_oldest(db: Database, surplus: list[Row]) -> tuple[int, int]:
    """Delete the surplus per subscription until a step is full; return how many, and the last finished subscription."""
    subscriptions: list[int] = []
    posts: list[int] = []
    last, eras = 0, list(era_groups(db))
    for subscription, count in surplus:
        step = min(count, _ROWS_PER_STEP - len(posts))
        deleted = _delete_oldest_of(db, eras, subscription, step)
        posts += deleted
        subscriptions += [subscription] * len(deleted)
        last = subscription if step == count else subscription - 1
        if len(posts) >= _ROWS_PER_STEP:
            break
    _subtract_from_tally(db, np.array(subscriptions, np.int64))
    _release_posts(db, np.array(posts, np.int64))
    return len(posts), last


def _delete_oldest_of(db: Database, eras: list[range], subscription: int, count: int) -> list[int]:
    """Delete the oldest matches of a subscription and return their posts."""
    posts: list[int] = []
    for group in eras:
        rows = db.fetch(_OLDEST.format(", ".join(map(str, group))), subscription, count - len(posts))
        posts += [post for _, _, post in rows]
        for era, last in {era: cursor for era, cursor, _ in rows}.items():
            db.execute("DELETE FROM match WHERE era = ? AND subscription = ? AND cursor <= ?", era, subscription, last)
        if len(posts) >= count:
            break
    return posts


def _subtract_from_tally(db: Database, subscriptions: Int64Array) -> None:
    bound = db.bind_pairs(*np.unique(subscriptions, return_counts=True))
    counts = f"(SELECT a, b FROM {bound.sql}) AS g"
    db.execute(f"UPDATE tally SET kept = kept - g.b FROM {counts} WHERE tally.subscription = g.a", *bound.parameters)
    db.execute(f"DELETE FROM tally WHERE kept <= 0 AND subscription IN (SELECT a FROM {bound.sql})", *bound.parameters)


def _release_posts(db: Database, posts: Int64Array) -> None:
    """Subtract one reference per listed post and delete the posts without references."""
    bound = db.bind_pairs(*np.unique(posts, return_counts=True))
    spent = f"SELECT p.number FROM {bound.sql} CROSS JOIN post p WHERE p.number = a AND p.refs <= b"
    advance_counter(db, "posts", -db.execute(f"DELETE FROM post WHERE number IN ({spent})", *bound.parameters))
    change_refs(db, posts, "-")


def _delete_batches(db: Database, limit: int) -> int:
    """Delete the oldest batches per stream; an uncommitted batch is the newest of its stream and stays."""
    count = 0
    for stream, newest in db.fetch("SELECT stream, max(batch) FROM batch GROUP BY stream"):
        with db.transaction():
            sql = "DELETE FROM batch WHERE stream = ? AND batch <= ?"
            count += db.execute(sql, stream, newest - max(1, limit))
    return count


def _delete_changes(db: Database, then: float) -> None:
    """Delete removed subscriptions without matches, and the changes before a time."""
    with db.transaction():
        last = db.fetch("SELECT max(position) FROM subscription_change WHERE at <= ?", then)[0][0]
        if last is not None:
            db.execute("DELETE FROM subscription_change WHERE position <= ?", last)
            db.execute("UPDATE counter SET value = ? WHERE name = 'forgotten'", last)
        sql = "DELETE FROM subscription WHERE removed_at <= ? AND id NOT IN (SELECT subscription FROM tally)"
        if db.execute(sql, then):
            db.execute("DELETE FROM address WHERE subscription NOT IN (SELECT id FROM subscription)")


def _delete_backlog(db: Database, then: float) -> None:
    """Delete the marks of posts that are not stored any more."""
    stored = f"SELECT 1 FROM post p WHERE p.id = backlog_post.id AND p.id_kind = {TEXT_ID}"
    with db.transaction():
        db.execute(f"DELETE FROM backlog_post WHERE added_at <= ? AND NOT EXISTS ({stored})", then)


def _to_array(rows: list[tuple[int, ...]]) -> Int64Array:
    return np.array([value for (value,) in rows], np.int64)
