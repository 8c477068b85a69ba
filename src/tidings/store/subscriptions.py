"""Subscriptions and the log of their changes. Ids are never reused, and the log is append-only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from tidings.errors import ChangeLogTruncated, UnknownSubscription
from tidings.store.columns import append_numbers, replace_invalid
from tidings.store.counters import advance_counter, read_counter
from tidings.store.database import Database, Row
from tidings.store.rows import (
    NetChanges,
    NewSubscription,
    PricedChange,
    Region,
    Subscription,
    SubscriptionChange,
    fits_int64,
)

_PAGE_ROWS = 10_000
_PAGE_IDS = 1_000
_BOX = ("west", "south", "east", "north")
_COLUMNS = f"id, owner, query, {', '.join(_BOX)}, shape, created_at, removed_at, cost"


class Usage(NamedTuple):
    """What the live subscriptions of an owner amount to."""

    subscriptions: int
    cost: int


class Subscriptions:
    """The subscriptions of a store.

    Methods that take an id and an owner raise UnknownSubscription if it does not exist, was removed or belongs to
    another owner. The error is the same for an id that does not exist and for one of another owner.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._db, self._now = database, clock

    def add(self, query: str, owner: str = "", region: Region | None = None, cost: int = 1) -> int:
        """Store a subscription that the caller has checked, and return its id."""
        return self.add_many([NewSubscription(query, owner, region, cost)])[0]

    def add_many(self, rows: Iterable[NewSubscription | tuple[object, ...]]) -> range:
        """Store all rows or none, and return their ids in order. Rows may be tuples of query, owner, region, cost."""
        columns = _to_columns([NewSubscription(*row) for row in rows])
        if not len(columns):
            return range(0)
        with self._db.transaction():
            return self._insert(columns)

    def add_within(self, row: NewSubscription, check: Callable[[Usage], None]) -> int:
        """Store a subscription and return its id, unless `check` raises, given what its owner uses already."""
        with self._db.transaction():
            check(self.usage(row.owner))
            return self._insert(_to_columns([row]))[0]

    def usage(self, owner: str) -> Usage:
        """Return the number and the cost of the live subscriptions of an owner."""
        live = "FROM subscription WHERE owner = ? AND removed_at IS NULL"
        return Usage(*map(int, self._db.fetch(f"SELECT count(*), coalesce(sum(cost), 0) {live}", owner)[0]))

    def _insert(self, columns: pa.Table) -> range:
        now = self._now()
        first = advance_counter(self._db, "subscription", len(columns)) + 1
        self._db.insert("subscription", append_numbers(columns, first, "id"), {"created_at": now})
        ids = range(first, first + len(columns))
        self._log_changes("add", list(ids), now)
        return ids

    def _log_changes(self, kind: str, ids: list[int], now: float) -> None:
        position = advance_counter(self._db, "position", len(ids)) + 1
        log = append_numbers(pa.table({"subscription": pa.array(ids, pa.int64())}), position, "position")
        self._db.insert("subscription_change", log, {"kind": kind, "at": now})

    def remove(self, subscription: int, owner: str | None = None) -> None:
        """Remove a subscription."""
        with self._db.transaction():
            self.require(subscription, owner)
            now = self._now()
            self._db.execute("UPDATE subscription SET removed_at = ? WHERE id = ?", now, subscription)
            self._log_changes("remove", [subscription], now)

    def remove_many(self, ids: Sequence[int]) -> int:
        """Remove those of the subscriptions that are live, in one transaction; return their number."""
        removed = 0
        with self._db.transaction():
            now = self._now()
            for first in range(0, len(ids), _PAGE_IDS):
                page = ids[first : first + _PAGE_IDS]
                live = f"id IN ({', '.join('?' * len(page))}) AND removed_at IS NULL"
                found = [int(row[0]) for row in self._db.fetch(f"SELECT id FROM subscription WHERE {live}", *page)]
                self._db.execute(f"UPDATE subscription SET removed_at = ? WHERE {live}", now, *page)
                self._log_changes("remove", sorted(found), now)
                removed += len(found)
        return removed

    def remove_all(self, owner: str) -> None:
        """Remove all subscriptions of an owner, in the transaction of the caller."""
        live = "owner = ? AND removed_at IS NULL"
        ids = [int(row[0]) for row in self._db.fetch(f"SELECT id FROM subscription WHERE {live} ORDER BY id", owner)]
        now = self._now()
        self._db.execute(f"UPDATE subscription SET removed_at = ? WHERE {live}", now, owner)
        self._log_changes("remove", ids, now)

    def require(self, subscription: int, owner: str | None = None) -> None:
        """Raise UnknownSubscription unless the subscription is live and belongs to this owner (None: to any)."""
        sql = "SELECT owner, removed_at FROM subscription WHERE id = ?"
        rows = self._db.fetch(sql, subscription) if fits_int64(subscription) else []
        if not rows or (owner is not None and rows[0][0] != owner):
            raise UnknownSubscription(subscription)
        if rows[0][1] is not None:
            raise UnknownSubscription(subscription, "was removed")

    def get(self, subscription: int, owner: str | None = None) -> Subscription:
        """Return a live subscription."""
        self.require(subscription, owner)
        return _from_row(self._db.fetch(f"SELECT {_COLUMNS} FROM subscription WHERE id = ?", subscription)[0])

    def page(self, owner: str, above: int = 0, limit: int = 100) -> list[Subscription]:
        """Return the next subscriptions of an owner, ordered by id."""
        live = "owner = ? AND id > ? AND removed_at IS NULL"
        sql = f"SELECT {_COLUMNS} FROM subscription WHERE {live} ORDER BY id LIMIT ?"
        return [_from_row(row) for row in self._db.fetch(sql, owner, above, limit)]

    def ids(self, owner: str) -> list[int]:
        """Return the ids of the live subscriptions of an owner, in order."""
        sql = "SELECT id FROM subscription WHERE owner = ? AND removed_at IS NULL ORDER BY id"
        return [int(row[0]) for row in self._db.fetch(sql, owner)]

    def all(self, owner: str | None = None, include_removed: bool = False) -> Iterator[Subscription]:
        """Iterate over subscriptions by id, in pages: a long read transaction would block checkpoints and vacuum."""
        conditions = ["id > ?"] + ["owner = ?"] * (owner is not None) + ["removed_at IS NULL"] * (not include_removed)
        sql = f"SELECT {_COLUMNS} FROM subscription WHERE {' AND '.join(conditions)} ORDER BY id LIMIT {_PAGE_ROWS}"
        last = 0
        while rows := self._db.fetch(sql, last, *([owner] if owner is not None else [])):
            yield from map(_from_row, rows)
            last = rows[-1][0]

    def owners(self, above: int = 0) -> list[tuple[int, str]]:
        """Return (id, owner) of all subscriptions above this id, including removed ones: an owner never changes."""
        rows = self._db.fetch("SELECT id, owner FROM subscription WHERE id > ?", above)
        return [(int(row[0]), str(row[1])) for row in rows]

    def position(self) -> int:
        """Return the position of the last change."""
        return read_counter(self._db, "position")

    def net_changes(self, since_position: int) -> NetChanges:
        """Return the current state of the subscriptions that changed after a position.

        A concurrent change may be reported again by the next call. Raises ChangeLogTruncated, see `change_log`.
        """
        position = self.position()
        if position == since_position:
            return NetChanges((), (), position)
        self._check_log_reaches(since_position)
        since = "SELECT subscription FROM subscription_change WHERE position > ?"
        rows = self._db.fetch(f"SELECT {_COLUMNS} FROM subscription WHERE id IN ({since}) ORDER BY id", since_position)
        changed = [_from_row(row) for row in rows]
        added = tuple(subscription for subscription in changed if subscription.removed_at is None)
        removed = tuple(subscription.id for subscription in changed if subscription.removed_at is not None)
        return NetChanges(added, removed, position)

    def priced_changes(self, since_position: int, limit: int) -> list[PricedChange]:
        """Return the next changes after a position with owners and costs. Raises ChangeLogTruncated."""
        columns = "c.position, c.kind, c.subscription, coalesce(s.owner, ''), coalesce(s.cost, 1)"
        joined = "subscription_change c LEFT JOIN subscription s ON s.id = c.subscription"
        sql = f"SELECT {columns} FROM {joined} WHERE c.position > ? ORDER BY c.position LIMIT ?"
        rows = self._db.fetch(sql, since_position, limit)
        self._check_log_reaches(since_position)
        return [PricedChange(*row) for row in rows]

    def get_many(self, ids: Sequence[int]) -> Iterator[Subscription]:
        """Iterate over those of the subscriptions that are live, by page."""
        for first in range(0, len(ids), _PAGE_IDS):
            page = ids[first : first + _PAGE_IDS]
            live = f"id IN ({', '.join('?' * len(page))}) AND removed_at IS NULL"
            yield from map(_from_row, self._db.fetch(f"SELECT {_COLUMNS} FROM subscription WHERE {live}", *page))

    def change_log(self, since_position: int, limit: int | None = None) -> list[SubscriptionChange]:
        """Return the changes after a position, in order. Raises ChangeLogTruncated if some were deleted."""
        sql = "SELECT position, kind, subscription, at FROM subscription_change WHERE position > ? ORDER BY position"
        rows = self._db.fetch(sql + ("" if limit is None else f" LIMIT {int(limit)}"), since_position)
        self._check_log_reaches(since_position)
        return [SubscriptionChange(*row) for row in rows]

    def _check_log_reaches(self, since_position: int) -> None:
        deleted = read_counter(self._db, "forgotten")
        if since_position < deleted:
            raise ChangeLogTruncated(
                f"Changes after {since_position}: those up to {deleted} are deleted. Read all subscriptions again."
            )


def _to_columns(rows: list[NewSubscription]) -> pa.Table:
    columns = {
        "owner": replace_invalid(pa.chunked_array([[row.owner for row in rows]], pa.string())),
        "query": replace_invalid(pa.chunked_array([[row.query for row in rows]], pa.string())),
    }
    boxes = [row.region if row.region and len(row.region) == len(_BOX) else None for row in rows]
    for side, name in enumerate(_BOX):
        columns[name] = pa.chunked_array([[box[side] if box else None for box in boxes]], pa.float64())
    shapes = [json.dumps(row.region) if row.region and not box else None for row, box in zip(rows, boxes, strict=True)]
    columns["shape"] = pa.chunked_array([shapes], pa.string())
    columns["cost"] = pa.chunked_array([[row.cost for row in rows]], pa.int64())
    return pa.table(columns)


def _from_row(row: Row) -> Subscription:
    identity, owner, query, *box, shape, created_at, removed_at, cost = row
    region = None if box[0] is None else tuple(box)
    if shape is not None:
        region = tuple(json.loads(shape))
    return Subscription(identity, owner, query, region, created_at, removed_at, int(cost))
