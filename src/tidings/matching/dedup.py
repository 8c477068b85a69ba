"""Merge: a subscription with conjunctions on several matchers may be found by each; it is reported once a post."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc


def hits_schema(subscription_type: pa.DataType, post_type: pa.DataType) -> pa.Schema:
    """Hits of one matcher on one batch; `shared` marks those another matcher may have found as well."""
    return pa.schema(
        [
            ("post", pa.uint32()),
            ("post_id", post_type),
            ("subscription_id", subscription_type),
            ("shared", pa.bool_()),
        ]
    )


@dataclass
class Merger:
    """Takes the hits of batches as matchers send them, in any order; gives every match once.

    Hits that only one matcher can find pass at once. The others of a batch wait until all its matchers have answered.
    """

    _waiting: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    _answers: dict[int, int] = field(default_factory=dict)

    def take(self, batch: int, matchers: int, hits: pa.RecordBatch) -> Iterator[pa.Table]:
        """Add the answer of one of the matchers that got this batch; yields matches that are certain now."""
        yield pa.Table.from_batches([hits.filter(pc.invert(hits.column("shared")))])
        self._waiting.setdefault(batch, []).append(hits.filter(hits.column("shared")))
        self._answers[batch] = self._answers.get(batch, 0) + 1
        if self._answers[batch] == matchers:
            yield from self._finish(batch)

    def rest(self) -> Iterator[pa.Table]:
        """What still waits when no more answers come."""
        for batch in list(self._waiting):
            yield from self._finish(batch)

    def _finish(self, batch: int) -> Iterator[pa.Table]:
        hits = pa.Table.from_batches(self._waiting.pop(batch))
        del self._answers[batch]
        if len(hits):
            # A post is its place in the batch, so two posts of one id stay two posts.
            first = hits.append_column("place", pa.array(range(len(hits))))
            places = first.group_by(["post", "subscription_id"]).aggregate([("place", "min")]).column("place_min")
            yield hits.take(places)
