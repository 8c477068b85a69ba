"""Subscriptions and the log of their changes. An id is never given twice, and the log only grows at its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidings.errors import ChangeLogTruncated, UnknownSubscription
from tidings.store.columns import clean, numbered
from tidings.store.commit import counter
from tidings.store.database import Database, Row
from tidings.store.rows import Change, Changed, NewSubscription, Subscription

_PAGE = 10_000
_FLOATS = ("west", "south", "east", "north")
_COLUMNS = f"id, owner, query, {', '.join(_FLOATS)}, shape, created_at, removed_at"


def subscribe_many(db: Database, rows: Iterable[NewSubscription | tuple[object, ...]], now: float) -> range:
    """Store them all or none; their ids, in order."""
    columns = _columns([NewSubscription(*row) for row in rows])
    if not len(columns):
        return range(0)
    with db.write():
        return _insert(db, columns, now)


def subscribe_within(db: Database, row: NewSubscription, limit: int, now: float) -> int | None:
    """Store it unless its owner has so many already; its id, or None."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM subscription WHERE owner = ? AND removed_at IS NULL LIMIT ?) AS found"
    with db.write():
        if db.rows(sql, row.owner, limit)[0][0] >= limit:
            return None
        return _insert(db, _columns([row]), now)[0]


def _insert(db: Database, columns: pa.Table, now: float) -> range:
    """Into the transaction of the caller."""
    first = counter(db, "subscription", len(columns)) + 1
    db.append("subscription", numbered(columns, first, "id"), {"created_at": now})
    ids = range(first, first + len(columns))
    _log(db, "add", list(ids), now)
    return ids


def _log(db: Database, kind: str, ids: list[int], now: float) -> None:
    position = counter(db, "position", len(ids)) + 1
    log = numbered(pa.table({"subscription": pa.array(ids, pa.int64())}), position, "position")
    db.append("subscription_change", log, {"kind": kind, "at": now})


def _columns(rows: list[NewSubscription]) -> pa.Table:
    made = {
        "owner": clean(pa.chunked_array([[row.owner for row in rows]], pa.string())),
        "query": clean(pa.chunked_array([[row.query for row in rows]], pa.string())),
    }
    boxes = [row.region if row.region and len(row.region) == len(_FLOATS) else None for row in rows]
    for side, name in enumerate(_FLOATS):
        made[name] = pa.chunked_array([[box[side] if box else None for box in boxes]], pa.float64())
    shapes = [json.dumps(row.region) if row.region and not box else None for row, box in zip(rows, boxes, strict=True)]
    made["shape"] = pa.chunked_array([shapes], pa.string())
    return pa.table(made)


def unsubscribe(db: Database, subscription: int, owner: str | None, now: float) -> None:
    """Remove it from now on; UnknownSubscription if it is not there (any more) or is not this owner's."""
    with db.write():
        live(db, subscription, owner)
        db.run("UPDATE subscription SET removed_at = ? WHERE id = ?", now, subscription)
        _log(db, "remove", [subscription], now)


def remove_all(db: Database, owner: str, now: float) -> None:
    """Remove all of an owner's, in the transaction of the caller."""
    mine = "owner = ? AND removed_at IS NULL"
    ids = [int(row[0]) for row in db.rows(f"SELECT id FROM subscription WHERE {mine} ORDER BY id", owner)]
    db.run(f"UPDATE subscription SET removed_at = ? WHERE {mine}", now, owner)
    _log(db, "remove", ids, now)


def live(db: Database, subscription: int, owner: str | None) -> None:
    """UnknownSubscription unless it is there and this owner's. That somebody else has it is not told."""
    known = -(1 << 63) <= subscription < 1 << 63
    found = db.rows("SELECT owner, removed_at FROM subscription WHERE id = ?", subscription) if known else []
    if not found or (owner is not None and found[0][0] != owner):
        raise UnknownSubscription(subscription)
    if found[0][1] is not None:
        raise UnknownSubscription(subscription, "was removed")


def one(db: Database, subscription: int, owner: str | None) -> Subscription:
    """This one; UnknownSubscription unless it is there and this owner's."""
    live(db, subscription, owner)
    return _subscription(db.rows(f"SELECT {_COLUMNS} FROM subscription WHERE id = ?", subscription)[0])


def page(db: Database, owner: str, above: int, limit: int) -> list[Subscription]:
    """An owner's next few in the order of their ids."""
    sql = f"SELECT {_COLUMNS} FROM subscription WHERE owner = ? AND id > ? AND removed_at IS NULL ORDER BY id LIMIT ?"
    return [_subscription(row) for row in db.rows(sql, owner, above, limit)]


def subscriptions(db: Database, owner: str | None, include_removed: bool) -> Iterator[Subscription]:
    """In the order of their ids, read in pages, so that no reader keeps the store from tidying up."""
    conditions = ["id > ?"] + ["owner = ?"] * (owner is not None) + ["removed_at IS NULL"] * (not include_removed)
    sql = f"SELECT {_COLUMNS} FROM subscription WHERE {' AND '.join(conditions)} ORDER BY id LIMIT {_PAGE}"
    last = 0
    while page := db.rows(sql, last, *([owner] if owner is not None else [])):
        yield from map(_subscription, page)
        last = page[-1][0]


def owners(db: Database, above: int) -> list[tuple[int, str]]:
    """The ids above this one, also of removed subscriptions, each with its owner."""
    return [(int(row[0]), str(row[1])) for row in db.rows("SELECT id, owner FROM subscription WHERE id > ?", above)]


def _subscription(row: Row) -> Subscription:
    identity, owner, query, *box, shape, created_at, removed_at = row
    region = None if box[0] is None else tuple(box)
    if shape is not None:
        region = tuple(json.loads(shape))
    return Subscription(identity, owner, query, region, created_at, removed_at)


def changed(db: Database, since_position: int) -> Changed:
    """How the subscriptions that changed after a position are now. Changes made meanwhile may be told twice."""
    position = int(db.rows("SELECT value FROM counter WHERE name = 'position'")[0][0])
    if position == since_position:
        return Changed((), (), position)
    _check_remembered(db, since_position)
    since = "SELECT subscription FROM subscription_change WHERE position > ?"
    rows = db.rows(f"SELECT {_COLUMNS} FROM subscription WHERE id IN ({since}) ORDER BY id", since_position)
    found = [_subscription(row) for row in rows]
    added = tuple(one for one in found if one.removed_at is None)
    return Changed(added, tuple(one.id for one in found if one.removed_at is not None), position)


def changes(db: Database, since_position: int, limit: int | None) -> list[Change]:
    """What changed after this position, in order; ChangeLogTruncated where the log no longer goes back that far."""
    sql = "SELECT position, kind, subscription, at FROM subscription_change WHERE position > ? ORDER BY position"
    found = db.rows(sql + ("" if limit is None else f" LIMIT {int(limit)}"), since_position)
    _check_remembered(db, since_position)
    return [Change(*row) for row in found]


def _check_remembered(db: Database, since_position: int) -> None:
    forgotten = db.rows("SELECT value FROM counter WHERE name = 'forgotten'")[0][0]
    if since_position < forgotten:
        raise ChangeLogTruncated(f"Changes up to {forgotten} are forgotten; read all subscriptions anew.")
