"""Named counters of a store. They hand out numbers, ids and positions that are never used again."""

from __future__ import annotations

from tidings.store.database import Database


def read_counter(db: Database, name: str) -> int:
    """Return the current value of a counter."""
    return int(db.fetch("SELECT value FROM counter WHERE name = ?", name)[0][0])


def advance_counter(db: Database, name: str, step: int) -> int:
    """Add `step` to a counter and return its value before."""
    sql = "UPDATE counter SET value = value + ? WHERE name = ? RETURNING value"
    return int(db.fetch(sql, step, name)[0][0]) - step
