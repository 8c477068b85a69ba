"""Functions that contenders run in Spark's Python workers. A separate module, so that workers import little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from tidings.index.decompile import decompile
from tidings.index.reader import Index
from tidings.matching.segment_matcher import Matcher, missing_positions
from tidings.text.analyzer import Analyzer

Batches = Iterator[pa.RecordBatch]


def identity(batches: Batches) -> Batches:
    """Return the batches unchanged: the floor."""
    yield from batches


def trie_stage(folder: str) -> Callable[[Batches], Batches]:
    """Return a stage that matches posts with the trie of the paper, over the same terms."""

    def stage(batches: Batches) -> Batches:
        receiver, matcher, ids = _open_trie(folder)
        for batch in batches:
            hits = matcher.match(receiver.analyze(batch.column("text")), missing_positions(batch.num_rows))
            post_ids = batch.column("id").take(pa.array(hits.posts))
            yield pa.record_batch([ids.take(pa.array(hits.subscriptions)), post_ids], ["subscription_id", "post_id"])

    return stage


@lru_cache(maxsize=1)
def _open_trie(folder: str) -> tuple[Analyzer, Matcher, pa.Array]:
    """Return the analyzer, the trie and the ids of the subscriptions; cached per worker."""
    from tidings.matching.trie import TrieMatcher

    index = Index.open(Path(folder))
    live = index.open_shard(0)[0]
    receiver = index.analyzer()
    return receiver, TrieMatcher(decompile(live.segment, live.removed)), live.segment.ids
