"""What was ever shed: totals by matcher and by owner of subscriptions, which grow with the batches they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tidings.store.database import Database

_ADD = """INSERT INTO withheld (kind, name, count) SELECT ?, t.value, n.b
    FROM (SELECT place, value FROM {}) AS t JOIN (SELECT a, b FROM {}) AS n ON n.a = t.place WHERE true
    ON CONFLICT (kind, name) DO UPDATE SET count = withheld.count + excluded.count"""


class ShedCounts(NamedTuple):
    """Posts withheld, by matcher; possible matches that were not looked for, by owner."""

    matchers: Mapping[int, int] = {}
    owners: Mapping[str, int] = {}


def add(db: Database, shed: ShedCounts) -> None:
    """Count these too; inside the transaction of their batch."""
    for kind, counts in (("matcher", shed.matchers), ("owner", shed.owners)):
        counted = {str(name): count for name, count in counts.items() if count}
        if counted:
            names = db.texts(list(counted))
            numbers = db.pairs(np.arange(len(counted)), np.array(list(counted.values()), np.int64))
            db.run(_ADD.format(names.sql, numbers.sql), kind, *names.parameters, *numbers.parameters)


def totals(db: Database, owners: int | None) -> ShedCounts:
    """All there ever was, the most first; of so many owners."""
    sql = "SELECT name, count FROM withheld WHERE kind = ? ORDER BY count DESC, name"
    limit = "" if owners is None else f" LIMIT {owners:d}"
    matchers = {int(name): int(count) for name, count in db.rows(sql, "matcher")}
    return ShedCounts(matchers, {name: int(count) for name, count in db.rows(sql + limit, "owner")})
