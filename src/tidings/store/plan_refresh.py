"""Requests of users for a new partition plan or another number of matchers, served by the running or next stream."""

from __future__ import annotations

from tidings.store.counters import advance_counter, read_counter
from tidings.store.database import Database

_REQUESTED, _DONE = "relearn asked", "relearn done"  # counters of the schema
_MATCHERS = "matchers wanted"  # a counter that exists once it was requested


class PlanRefreshRequests:
    """The requests of a store. They are counted, so that a request made during a refresh is not lost."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def request(self) -> None:
        """Request a new partition plan."""
        with self._db.transaction():
            advance_counter(self._db, _REQUESTED, 1)

    def pending_requests(self) -> int:
        """Return the number of all requests so far if one is open, else 0."""
        requested = read_counter(self._db, _REQUESTED)
        return requested if requested > read_counter(self._db, _DONE) else 0

    def complete(self, requested: int) -> None:
        """Mark requests as served, up to a number that `pending_requests` returned."""
        self._db.execute("UPDATE counter SET value = ? WHERE name = ?", requested, _DONE)

    def request_matchers(self, matchers: int) -> None:
        """Request a number of matchers. The last request counts, also after it was served."""
        sql = "INSERT INTO counter (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        self._db.execute(sql, _MATCHERS, matchers)

    def wanted_matchers(self) -> int | None:
        """Return the number of matchers requested last; None if there was no request."""
        rows = self._db.fetch("SELECT value FROM counter WHERE name = ?", _MATCHERS)
        return int(rows[0][0]) if rows else None
