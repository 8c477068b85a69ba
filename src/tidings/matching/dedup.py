"""Merge the hits of several matchers: they may find the same subscription if its conjunctions are on several shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.ragged import sorted_unique

_HALF = np.uint64(32)


def hits_schema(subscription_type: pa.DataType, post_type: pa.DataType | None = None) -> pa.Schema:
    """Return the schema of the hits of one matcher; `shared` marks those that other matchers may find as well."""
    fields = [("post", pa.uint32()), ("subscription_id", subscription_type), ("shared", pa.bool_())]
    return pa.schema(fields if post_type is None else [*fields, ("post_id", post_type)])


def drop_repeated(hits: pa.Table) -> pa.Table:
    """Return the hits of a batch without repetitions. Only shared hits are compared; they come last.

    Posts are identified by their row in the batch, so two posts with the same id stay two posts.
    """
    shared = hits.filter(hits["shared"]).combine_chunks()
    if not len(shared):
        return hits
    posts, subscriptions = shared["post"].to_numpy(), shared["subscription_id"].chunk(0).dictionary_encode()
    numbers = subscriptions.indices.to_numpy(zero_copy_only=False).astype(np.uint64)
    distinct = sorted_unique(posts.astype(np.uint64) << _HALF | numbers)
    row_of = np.empty(int(posts.max()) + 1, np.int64)
    row_of[posts] = np.arange(len(posts))
    unique = shared.take(pa.array(row_of[(distinct >> _HALF).astype(np.int64)]))
    ids = subscriptions.dictionary.take(pa.array(distinct & np.uint64(0xFFFFFFFF)))
    unique = unique.set_column(unique.schema.get_field_index("subscription_id"), "subscription_id", ids)
    return pa.concat_tables([hits.filter(pc.invert(hits["shared"])), unique.cast(hits.schema)])


def group_by_post(posts: NDArray[np.uint32], ids: pa.Array, count: int) -> tuple[pa.Array, NDArray[np.uint32]]:
    """Return the ids in the order of their posts, and the number of ids of each of `count` posts."""
    keys = posts.astype(np.uint16) if count <= 1 << 16 else posts  # NumPy sorts short integers in linear time
    order = np.argsort(keys, kind="stable")
    return ids.take(pa.array(order)), np.bincount(posts, minlength=count).astype(np.uint32)


@dataclass
class MatchDeduplicator:
    """Takes the hits of matchers in any order and returns every match once.

    Hits that only one matcher can find pass immediately. Shared ones wait until all matchers of the batch have replied.
    """

    _pending: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    _replies: dict[int, int] = field(default_factory=dict)

    def add(self, batch: int, matchers: int, hits: pa.RecordBatch) -> Iterator[pa.Table]:
        """Add the hits of one of the matchers that got this batch; yield the matches that are final."""
        yield pa.Table.from_batches([hits.filter(pc.invert(hits.column("shared")))])
        self._pending.setdefault(batch, []).append(hits.filter(hits.column("shared")))
        self._replies[batch] = self._replies.get(batch, 0) + 1
        if self._replies[batch] == matchers:
            yield from self._finish(batch)

    def flush(self) -> Iterator[pa.Table]:
        """Yield the waiting matches when no more hits will come."""
        for batch in list(self._pending):
            yield from self._finish(batch)

    def _finish(self, batch: int) -> Iterator[pa.Table]:
        hits = pa.Table.from_batches(self._pending.pop(batch))
        del self._replies[batch]
        if len(hits):
            yield drop_repeated(hits)
