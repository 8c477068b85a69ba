"""What a Python worker keeps between batches: the opened index, the lexicon, the buffers of its matchers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import SparkFiles

from tidings.index.index import Index, LiveSegment
from tidings.match.matcher import FlatMatcher, Hits
from tidings.receive.compose import positions, searchable
from tidings.receive.receiver import Received, Receiver
from tidings.route.router import Router


@dataclass(frozen=True, slots=True)
class IndexRef:
    """How a worker finds an index version: small enough to travel with every task."""

    folder: str
    version: int
    shipped: bool = False  # whether the folder is a name among Spark's files instead of a path

    def path(self) -> Path:
        return Path(SparkFiles.get(self.folder) if self.shipped else self.folder)


@dataclass(frozen=True, slots=True)
class Found:
    """Hits with the subscriptions' own ids; `shared` marks those that other matchers may find too."""

    posts: NDArray[np.uint32]
    ids: pa.Array
    shared: NDArray[np.bool_]


class OpenIndex:
    """An index version in use. Everything is made when first needed: a router needs no matcher and vice versa."""

    def __init__(self, ref: IndexRef) -> None:
        self.index = Index.open(ref.path(), ref.version)
        self._matchers: dict[int, list[tuple[LiveSegment, FlatMatcher]]] = {}

    @cached_property
    def receiver(self) -> Receiver:
        return Receiver(self.index.vocabulary, self.index.manifest.phrases)

    @cached_property
    def router(self) -> Router:
        return Router(self.index)

    def receive(self, batch: pa.RecordBatch) -> tuple[Received, NDArray[np.float64]]:
        return self.receiver.receive(searchable(batch)), positions(batch)

    def match(self, shard: int, received: Received, where: NDArray[np.float64]) -> list[Found]:
        """What a shard finds, segment by segment; a live subscription is in one segment of a shard only."""
        return [_found(live, matcher.match(received, where)) for live, matcher in self._shard(shard)]

    def _shard(self, shard: int) -> list[tuple[LiveSegment, FlatMatcher]]:
        if shard not in self._matchers:
            terms = self.index.manifest.terms
            self._matchers[shard] = [(s, FlatMatcher(s.segment, terms, s.removed)) for s in self.index.shard(shard)]
        return self._matchers[shard]


def _found(live: LiveSegment, hits: Hits) -> Found:
    ids = live.segment.ids.take(pa.array(hits.subscriptions))
    return Found(hits.posts, ids, live.shared[hits.subscriptions].astype(bool))


@lru_cache(maxsize=2)  # the version in use and the one before it
def open_index(ref: IndexRef) -> OpenIndex:
    return OpenIndex(ref)
