"""Remove duplicate matches: several matchers may find a subscription whose conjunctions are on several shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc


def hits_schema(subscription_type: pa.DataType, post_type: pa.DataType) -> pa.Schema:
    """Return the schema of the hits of one matcher; `shared` marks those that other matchers may find as well."""
    return pa.schema(
        [
            ("post", pa.uint32()),
            ("post_id", post_type),
            ("subscription_id", subscription_type),
            ("shared", pa.bool_()),
        ]
    )


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
            # Posts are identified by their row in the batch, so two posts with the same id stay two posts.
            numbered = hits.append_column("row", pa.array(range(len(hits))))
            groups = numbered.group_by(["post", "subscription_id"], use_threads=False)  # threads would change the order
            rows = groups.aggregate([("row", "min")]).column("row_min")
            yield hits.take(rows)
