"""Totals of shed work, by matcher and by owner of subscriptions; each batch adds its counts when it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tidings.store.database import Database

_ADD = """INSERT INTO withheld (kind, name, count) SELECT ?, t.value, n.b
    FROM (SELECT row_index, value FROM {}) AS t JOIN (SELECT a, b FROM {}) AS n ON n.a = t.row_index WHERE true
    ON CONFLICT (kind, name) DO UPDATE SET count = withheld.count + excluded.count"""


class ShedCounts(NamedTuple):
    """Shed posts by matcher; by owner, the possible matches of shed posts."""

    matchers: Mapping[int, int] = {}
    owners: Mapping[str, int] = {}


NOTHING_SHED = ShedCounts()


class ShedTotals:
    """The totals of a store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def read(self, max_owners: int | None = None) -> ShedCounts:
        """Return all totals, largest first; with `max_owners` only the owners with the largest ones."""
        sql = "SELECT name, count FROM withheld WHERE kind = ? ORDER BY count DESC, name"
        limit = "" if max_owners is None else f" LIMIT {max_owners:d}"
        matchers = {int(name): int(count) for name, count in self._db.fetch(sql, "matcher")}
        return ShedCounts(matchers, {name: int(count) for name, count in self._db.fetch(sql + limit, "owner")})


def add_shed_counts(db: Database, shed: ShedCounts) -> None:
    """Add the counts of a batch to the totals, in the transaction that commits the batch."""
    for kind, counts in (("matcher", shed.matchers), ("owner", shed.owners)):
        nonzero = {str(name): count for name, count in counts.items() if count}
        if nonzero:
            names = db.bind_texts(list(nonzero))
            numbers = db.bind_pairs(np.arange(len(nonzero)), np.array(list(nonzero.values()), np.int64))
            db.execute(_ADD.format(names.sql, numbers.sql), kind, *names.parameters, *numbers.parameters)
