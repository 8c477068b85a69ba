"""What contenders run inside Spark's Python workers; apart, so that a worker imports nothing else of the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from tidings.index.decompile import decompile
from tidings.index.reader import Index
from tidings.matching.segment_matcher import Matcher, no_positions
from tidings.text.analyzer import Receiver

Batches = Iterator[pa.RecordBatch]


def identity(batches: Batches) -> Batches:
    """The floor: through Python and back, nothing else."""
    yield from batches


def trie_stage(folder: str) -> Callable[[Batches], Batches]:
    """posts → matches by the paper's trie, over the same cleaned words."""

    def stage(batches: Batches) -> Batches:
        receiver, matcher, ids = _open_trie(folder)
        for batch in batches:
            hits = matcher.match(receiver.receive(batch.column("text")), no_positions(batch.num_rows))
            post_ids = batch.column("id").take(pa.array(hits.posts))
            yield pa.record_batch([ids.take(pa.array(hits.subscriptions)), post_ids], ["subscription_id", "post_id"])

    return stage


@lru_cache(maxsize=1)
def _open_trie(folder: str) -> tuple[Receiver, Matcher, pa.Array]:
    """The receiver, the trie and the subscriptions' ids, kept by a worker between batches."""
    from tidings.matching.trie import TrieMatcher

    index = Index.open(Path(folder))
    live = index.shard(0)[0]
    receiver = index.receiver()
    return receiver, TrieMatcher(decompile(live.segment, live.removed)), live.segment.ids
