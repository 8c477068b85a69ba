"""What a Python worker keeps between batches: the opened index, the lexicon, the buffers of its matchers."""

from __future__ import annotations

import io
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import SparkFiles

from tidings.index.local_cache import Cache
from tidings.index.reader import Index, LiveSegment
from tidings.index.token_cache_file import Warmth
from tidings.ingest.validation import unfit
from tidings.matching.load import MatcherLoad
from tidings.matching.segment_matcher import FlatMatcher, Hits
from tidings.routing.router import Router
from tidings.routing.spatial_router import AreaRouter, open_router
from tidings.text.analyzer import Received, Receiver
from tidings.text.searchable import positions, searchable


@dataclass(frozen=True, slots=True)
class IndexRef:
    """How a worker finds an index version: small enough to travel with every task."""

    folder: str
    version: int
    shipped: bool = False  # whether the folder is a name among Spark's files instead of a path
    cached: bool = False  # whether the folder is shared by machines, so that each keeps copies
    packed: bytes = field(default=b"", repr=False)  # all of it as a ZIP archive, where no file can be sent

    def path(self) -> Path:
        return Path(SparkFiles.get(self.folder) if self.shipped else self.folder)

    def open(self) -> tuple[Index, Path]:
        """The index, and the folder for what its receivers met. A machine that can keep no copies does without."""
        if self.packed:
            return _unpacked(self.packed, self.version)
        if self.cached:
            with suppress(OSError):
                kept = Cache().open(self.path(), self.version)
                return kept.index, kept.notes
        return Index.open(self.path(), self.version), self.path()


def _unpacked(archive: bytes, version: int) -> tuple[Index, Path]:
    with tempfile.TemporaryDirectory(prefix="tidings-index-") as folder, ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
        kept = Cache().open(Path(folder), version)
    return kept.index, kept.notes


@dataclass(frozen=True, slots=True)
class Found:
    """Hits of one segment, with the subscriptions' own ids."""

    hits: Hits
    live: LiveSegment

    @property
    def posts(self) -> pa.Array:
        return pa.array(self.hits.posts)

    @property
    def ids(self) -> pa.Array:
        return self.live.segment.ids.take(pa.array(self.hits.subscriptions))

    @property
    def shared(self) -> pa.Array:
        """Which hits other matchers may have found too."""
        return pa.array(self.live.shared[self.hits.subscriptions].astype(bool))


class OpenIndex:
    """An index version in use. Everything is made when first needed: a router needs no matcher and vice versa."""

    def __init__(self, ref: IndexRef) -> None:
        self.index, notes = ref.open()
        self._warmth = _warmth(notes)
        self._matchers: dict[int, list[tuple[LiveSegment, FlatMatcher]]] = {}
        self.noted: dict[int, MatcherLoad] = {}  # what was matched; who wants to know clears it before

    @cached_property
    def receiver(self) -> Receiver:
        return self.index.receiver(self._warmth.remembered)

    @cached_property
    def router(self) -> Router | AreaRouter:
        return open_router(self.index)

    def receive(self, batch: pa.RecordBatch) -> tuple[Received, NDArray[np.float64]]:
        """The terms and positions of posts; one that is unfit (`refused`) has neither, so that nothing matches it."""
        where = positions(batch)
        received = self.receiver.receive(searchable(batch))
        bad = np.union1d(unfit(batch, where), received.refused)
        received.bounds[bad] = 0
        where[bad] = np.nan
        return replace(received, refused=bad), where

    def keep_warm(self) -> None:
        """Leave what was met to workers that start later; called when a task has read all its posts."""
        self._warmth.save()

    def match(self, shard: int, received: Received, where: NDArray[np.float64]) -> list[Found]:
        """What a shard finds, segment by segment; a live subscription is in one segment of a shard only."""
        start = time.thread_time()
        found = [Found(matcher.match(received, where), live) for live, matcher in self._shard(shard)]
        matches = sum(len(one.hits) for one in found)
        load = MatcherLoad(shard, len(received), matches, time.thread_time() - start)
        self.noted[shard] = self.noted[shard] + load if shard in self.noted else load
        return found

    def _shard(self, shard: int) -> list[tuple[LiveSegment, FlatMatcher]]:
        if shard not in self._matchers:
            terms = self.index.manifest.terms
            self._matchers[shard] = [(s, FlatMatcher(s.segment, terms, s.removed)) for s in self.index.shard(shard)]
        return self._matchers[shard]


_warmth = lru_cache(maxsize=2)(Warmth)


@lru_cache(maxsize=2)  # the version in use and the one before it
def open_index(ref: IndexRef) -> OpenIndex:
    return OpenIndex(ref)
