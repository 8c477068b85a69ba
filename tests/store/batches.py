"""Helpers that build and commit batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidings.store import CommitResult, Store


def posts(ids: Sequence[int] | Sequence[str], **columns: Any) -> pa.Table:
    columns.setdefault("text", [f"text of {identity}" for identity in ids])
    kind = pa.string() if ids and isinstance(ids[0], str) else pa.int64()
    return pa.table({"id": pa.array(ids, kind), **columns})


def matches(pairs: Sequence[tuple[int, int]]) -> pa.Table:
    """Build a table of matches from (subscription, row of the posts)."""
    return pa.table(
        {
            "subscription": pa.array([subscription for subscription, _ in pairs], pa.int64()),
            "post_row": pa.array([row for _, row in pairs], pa.int64()),
        }
    )


def run_batch(store: Store, batch: int, ids: Any, pairs: Sequence[tuple[int, int]], **more: Any) -> CommitResult:
    """Begin and commit a batch of the stream `s`."""
    stream = more.pop("stream", "s")
    store.batches.begin(stream, batch, more.pop("index_version", 1), 1)
    return store.batches.commit(stream, batch, ids if isinstance(ids, pa.Table) else posts(ids), matches(pairs), **more)


def read_ids(store: Store, subscription: int, cursor: int = 0, limit: int = 10_000) -> list[int | str]:
    return [match.post_id for match in store.matches.since(subscription, cursor, limit)]
