"""Keeping a store bounded: by count, by age. Every step is a short transaction of its own, so a batch never waits long.

Matches go first and their posts after them, so a reader never meets a match without its post. Numbers are never given
again, so cursors keep growing whatever is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from tidings.store.commit import change_refs, counter
from tidings.store.database import Database, Row, Whole
from tidings.store.queries import era_groups
from tidings.store.rows import Forgotten, Retention
from tidings.store.schema import ERA_BITS

_STEP = 5_000  # rows deleted in one transaction
_SUBSCRIPTIONS = 200  # looked at in one transaction
_PAUSE_S = 0.002  # between steps: locks are not fair, and a commit may be waiting
_SURPLUS = """SELECT t.subscription, t.kept - CASE WHEN s.removed_at IS NULL THEN ? ELSE 0 END
    FROM tally t LEFT JOIN subscription s ON s.id = t.subscription
    WHERE t.kept > CASE WHEN s.removed_at IS NULL THEN ? ELSE 0 END AND t.subscription > ?
    ORDER BY t.subscription LIMIT ?"""
_OLDEST = "SELECT era, cursor, post FROM match WHERE era IN ({}) AND subscription = ? ORDER BY cursor LIMIT ?"
_ORPHANS = """DELETE FROM post WHERE number > ? AND number <= ? AND NOT EXISTS
    (SELECT 1 FROM match m WHERE m.post = post.number AND m.cursor <> m.post)"""
_RECOUNT = """UPDATE post SET refs = (SELECT count(*) FROM match m WHERE m.post = post.number AND m.cursor <> m.post)
    WHERE number > ? AND number <= ?"""


def retain(db: Database, keep: Retention, now: float) -> Forgotten:
    """Forget what is beyond the bounds."""
    before = db.rows("SELECT value FROM counter WHERE name = 'posts'")[0][0]
    matches = _forget_old(db, _last_number_before(db, now - keep.max_age_s))
    matches += _forget_surplus(db, keep.max_matches_per_subscription)
    after = db.rows("SELECT value FROM counter WHERE name = 'posts'")[0][0]
    batches = _forget_batches(db, keep.max_batches)
    with db.write():
        last = db.rows("SELECT value FROM counter WHERE name = 'rejected'")[0][0] - keep.max_rejected
        rejected = db.run("DELETE FROM rejected WHERE number <= ?", last)
    _forget_changes(db, now - keep.max_age_s)
    db.tidy()
    return Forgotten(matches, max(0, before - after), batches, rejected)


def _last_number_before(db: Database, then: float) -> int:
    """All numbers up to this one were given by then."""
    with db.write():
        last = db.rows("SELECT coalesce(max(number), 0) FROM moment WHERE at <= ?", then)[0][0]
        db.run("DELETE FROM moment WHERE number < ?", last)
    return int(last)


def _forget_old(db: Database, last: int) -> int:
    """Matches with cursors up to `last`, then the posts up to it that no later match refers to."""
    count = 0
    for eras in era_groups(db):
        for era in eras:
            if era <= last >> ERA_BITS:
                count += sum(_forget_range(db, era, low, high, last) for low, high in _ranges(db, era))
    for low, high in _post_ranges(db, last):
        with db.write():
            counter(db, "posts", -db.run(_ORPHANS, low, high))
            db.run(_RECOUNT, low, high)
        time.sleep(_PAUSE_S)
    return count


def _ranges(db: Database, era: int) -> Iterator[tuple[int, int]]:
    """Ranges of subscriptions that together cover an era, each with about a step's matches."""
    sql = "SELECT subscription FROM match WHERE era = ? AND subscription > ? ORDER BY subscription LIMIT 1 OFFSET ?"
    low = 0
    while found := db.rows(sql, era, low, _STEP):
        yield low, found[0][0]
        low = found[0][0]
    yield low, (1 << 63) - 1


def _forget_range(db: Database, era: int, low: int, high: int, last: int) -> int:
    sql = """DELETE FROM match WHERE era = ? AND subscription > ? AND subscription <= ? AND cursor <= ?
        RETURNING subscription"""
    with db.write():
        gone = _column(db.rows(sql, era, low, high, last))
        _take_from_tally(db, gone)
    time.sleep(_PAUSE_S)
    return len(gone)


def _post_ranges(db: Database, last: int) -> Iterator[tuple[int, int]]:
    sql = f"SELECT number FROM post WHERE number > ? AND number <= ? ORDER BY number LIMIT 1 OFFSET {_STEP}"
    low = 0
    while found := db.rows(sql, low, last):
        yield low, found[0][0]
        low = found[0][0]
    yield low, last


def _forget_surplus(db: Database, limit: int) -> int:
    """The oldest matches of subscriptions that have too many, and all of those that were removed."""
    count, last = 0, 0
    while True:
        with db.write():
            found = db.rows(_SURPLUS, limit, limit, last, _SUBSCRIPTIONS)
            gone, last = _forget_oldest(db, found)
        if not found:
            return count
        count += gone
        time.sleep(_PAUSE_S)


def _forget_oldest(db: Database, surplus: list[Row]) -> tuple[int, int]:
    """So many of each subscription's matches, until a step is full; how many went, the last subscription finished."""
    subscriptions: list[int] = []
    posts: list[int] = []
    last, eras = 0, list(era_groups(db))
    for subscription, count in surplus:
        wanted = min(count, _STEP - len(posts))
        gone = _delete_oldest(db, eras, subscription, wanted)
        posts += gone
        subscriptions += [subscription] * len(gone)
        last = subscription if wanted == count else subscription - 1
        if len(posts) >= _STEP:
            break
    _take_from_tally(db, np.array(subscriptions, np.int64))
    _release(db, np.array(posts, np.int64))
    return len(posts), last


def _delete_oldest(db: Database, eras: list[range], subscription: int, count: int) -> list[int]:
    """Delete a subscription's oldest matches; their posts."""
    posts: list[int] = []
    for group in eras:
        found = db.rows(_OLDEST.format(", ".join(map(str, group))), subscription, count - len(posts))
        posts += [post for _, _, post in found]
        for era, last in {era: cursor for era, cursor, _ in found}.items():
            db.run("DELETE FROM match WHERE era = ? AND subscription = ? AND cursor <= ?", era, subscription, last)
        if len(posts) >= count:
            break
    return posts


def _take_from_tally(db: Database, subscriptions: Whole) -> None:
    given = db.pairs(*np.unique(subscriptions, return_counts=True))
    taken = f"(SELECT a, b FROM {given.sql}) AS g"
    db.run(f"UPDATE tally SET kept = kept - g.b FROM {taken} WHERE tally.subscription = g.a", *given.parameters)
    db.run(f"DELETE FROM tally WHERE kept <= 0 AND subscription IN (SELECT a FROM {given.sql})", *given.parameters)


def _release(db: Database, posts: Whole) -> None:
    """These posts lost a match each; those that lost their last one go, the others are counted down."""
    given = db.pairs(*np.unique(posts, return_counts=True))
    spent = f"SELECT p.number FROM {given.sql} CROSS JOIN post p WHERE p.number = a AND p.refs <= b"
    counter(db, "posts", -db.run(f"DELETE FROM post WHERE number IN ({spent})", *given.parameters))
    change_refs(db, posts, "-")


def _forget_batches(db: Database, limit: int) -> int:
    """Of every stream the oldest batches; one that is not done is the newest of its stream and stays."""
    count = 0
    for stream, newest in db.rows("SELECT stream, max(batch) FROM batch GROUP BY stream"):
        with db.write():
            sql = "DELETE FROM batch WHERE stream = ? AND batch <= ?"
            count += db.run(sql, stream, newest - max(1, limit))
    return count


def _forget_changes(db: Database, then: float) -> None:
    """Removed subscriptions without matches, and the changes before that time."""
    with db.write():
        last = db.rows("SELECT max(position) FROM subscription_change WHERE at <= ?", then)[0][0]
        if last is not None:
            db.run("DELETE FROM subscription_change WHERE position <= ?", last)
            db.run("UPDATE counter SET value = ? WHERE name = 'forgotten'", last)
        sql = "DELETE FROM subscription WHERE removed_at <= ? AND id NOT IN (SELECT subscription FROM tally)"
        if db.run(sql, then):
            db.run("DELETE FROM address WHERE subscription NOT IN (SELECT id FROM subscription)")


def _column(rows: list[tuple[int, ...]]) -> Whole:
    return np.array([value for (value,) in rows], np.int64)
