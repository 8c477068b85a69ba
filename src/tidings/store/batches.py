"""The ledger of batches: pin versions when a batch begins, commit its results exactly once, list what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from tidings.store.commit import BatchChunk, commit_batch
from tidings.store.database import Database, Row
from tidings.store.rows import BatchPin, BatchRecord, CommitResult, RejectedRow
from tidings.store.shed_totals import NOTHING_SHED, ShedCounts

_NOTHING_REJECTED = pa.table({"reason": pa.nulls(0, pa.string())})  # pa.array would import pandas
_INSERT = """INSERT INTO batch (stream, batch, index_version, plan_version, state, started_at, posts, matches, rejected,
    figures, shed) VALUES (?, ?, ?, ?, 'begun', ?, 0, 0, 0, '{}', ?)"""


class BatchLedger:
    """The batches of a store, and the rows that they rejected."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._db, self._now = database, clock

    def begin(self, stream: str, batch: int, index_version: int, plan_version: int, shed: str = "") -> BatchPin:
        """Record the versions and the shedding decision of a batch; for a replayed batch return the first record."""
        sql = "SELECT index_version, plan_version, state, shed FROM batch WHERE stream = ? AND batch = ?"
        with self._db.transaction():
            for index, plan, state, first_shed in self._db.fetch(sql, stream, batch):
                return BatchPin(index, plan, state == "done", replay=True, shed=first_shed)
            self._db.execute(_INSERT, stream, batch, index_version, plan_version, self._now(), shed)
        return BatchPin(index_version, plan_version, done=False, replay=False, shed=shed)

    def repin(self, stream: str, batch: int, index_version: int, plan_version: int) -> None:
        """Pin a batch that is not committed to other versions, because its own are lost."""
        self._db.execute(
            "UPDATE batch SET index_version = ?, plan_version = ? WHERE stream = ? AND batch = ? AND state = 'begun'",
            *(index_version, plan_version, stream, batch),
        )

    def pinned_versions(self) -> set[int]:
        """Return the index versions of uncommitted batches of the last stream; older streams cannot continue."""
        last = "SELECT stream FROM batch ORDER BY started_at DESC, batch DESC LIMIT 1"
        sql = f"SELECT index_version FROM batch WHERE state = 'begun' AND stream = ({last})"
        return {int(row[0]) for row in self._db.fetch(sql)}

    def commit(
        self,
        stream: str,
        batch: int,
        posts: pa.Table,
        matches: pa.Table,
        rejected: pa.Table = _NOTHING_REJECTED,
        metrics: Mapping[str, object] | None = None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> CommitResult:
        """Store the results of a batch in one transaction and mark it done; a batch that is done stays unchanged.

        `posts` has POST_FIELDS (only `id` is required) and optionally `arrived_at` in seconds; `matches` has
        `subscription` and `post_row`, a row of `posts`; `rejected` has `source`, `source_row`, `reason`, `excerpt`.
        Posts without matches, known matches and matches of removed subscriptions are skipped. `before_commit` runs
        when everything is written but not visible; if it raises, the transaction is rolled back.
        """
        return self.commit_chunks(stream, batch, [BatchChunk(posts, matches, rejected)], metrics, before_commit)

    def commit_chunks(
        self,
        stream: str,
        batch: int,
        chunks: Iterable[BatchChunk],
        metrics: Mapping[str, object] | None = None,
        before_commit: Callable[[], None] = lambda: None,
        shed: ShedCounts = NOTHING_SHED,
    ) -> CommitResult:
        """Like `commit`, for a batch too large for memory: one transaction stores its chunks one after the other.

        `shed` is added to the totals of shed work.
        """
        return commit_batch(self._db, (stream, batch), chunks, metrics or {}, self._now(), before_commit, shed)

    def recent(self, stream: str | None = None, limit: int = 100) -> list[BatchRecord]:
        """Return the last batches, oldest first."""
        sql = """SELECT stream, batch, index_version, plan_version, state, started_at, finished_at, posts, matches,
            rejected, shed, figures FROM batch {} ORDER BY started_at DESC, batch DESC LIMIT ?"""
        chosen = () if stream is None else (stream,)
        rows = self._db.fetch(sql.format("WHERE stream = ?" if chosen else ""), *chosen, limit)
        return [_from_row(row) for row in reversed(rows)]

    def rejected_rows(self, limit: int = 100) -> list[RejectedRow]:
        """Return the last rejected rows, oldest first."""
        columns = "number, stream, batch, source, source_row, reason, excerpt"
        rows = self._db.fetch(f"SELECT {columns} FROM rejected ORDER BY number DESC LIMIT ?", limit)
        return [RejectedRow(*row) for row in reversed(rows)]


def _from_row(row: Row) -> BatchRecord:
    *fields, shed, metrics = row
    values: tuple[Any, ...] = (*fields, json.loads(metrics), shed)
    return BatchRecord(*values)
