"""State that a Python worker keeps between batches: the open index, its token cache and its matchers."""

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

from tidings.heap import release_free_memory
from tidings.index.local_cache import IndexCache
from tidings.index.manifest import Content, SegmentRecord
from tidings.index.reader import Index, SegmentView
from tidings.index.token_cache_file import TokenCacheFile
from tidings.ingest.validation import invalid_rows
from tidings.matching.load import MatcherLoad
from tidings.matching.registry import DEFAULT_MATCHER, matcher_opener
from tidings.matching.segment_matcher import Hits, Matcher, SegmentMatcher
from tidings.routing.router import Router
from tidings.routing.spatial_router import SpatialRouter, open_router
from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.searchable import join_searchable, read_positions


@dataclass(frozen=True, slots=True)
class IndexRef:
    """Where a worker finds an index version. Small, because it is sent with every task."""

    folder: str
    version: int
    shipped: bool = False  # the folder is the name of a Spark file, not a path
    cached: bool = False  # the folder is shared by machines; each machine copies it to its local cache
    matcher: str = DEFAULT_MATCHER  # see matching/registry.py
    packed: bytes = field(default=b"", repr=False)  # the index as a ZIP archive, for sessions that cannot send files

    def path(self) -> Path:
        return Path(SparkFiles.get(self.folder) if self.shipped else self.folder)

    def open(self) -> tuple[Index, Path]:
        """Open the index; return it and the folder of its token cache. If copying fails, read the shared folder."""
        if self.packed:
            return _open_archive(self.packed, self.version)
        if self.cached:
            with suppress(OSError):
                cached = IndexCache().open(self.path(), self.version)
                return cached.index, cached.scratch
        return Index.open(self.path(), self.version), self.path()


def _open_archive(archive: bytes, version: int) -> tuple[Index, Path]:
    with tempfile.TemporaryDirectory(prefix="tidings-index-") as folder, ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
        cached = IndexCache().open(Path(folder), version)
    return cached.index, cached.scratch


@dataclass(frozen=True, slots=True)
class SegmentHits:
    """The hits of one segment, with the ids that users gave to the subscriptions."""

    hits: Hits
    view: SegmentView

    @property
    def posts(self) -> pa.Array:
        return pa.array(self.hits.posts)

    @property
    def ids(self) -> pa.Array:
        return self.view.segment.ids.take(pa.array(self.hits.subscriptions))

    @property
    def is_shared(self) -> pa.Array:
        """Whether other matchers may report the same hit, per hit."""
        return pa.array(self.view.is_shared[self.hits.subscriptions].astype(bool))


_OPEN_VERSIONS = 2  # the version in use and the one before it
_OpenSegment = tuple[SegmentView, SegmentMatcher]


class _SegmentCache:
    """The open segments of this process by content: a later version with the same segment reuses the tables."""

    def __init__(self) -> None:
        self._open: dict[Content, _OpenSegment] = {}
        self._used_in: dict[Content, int] = {}
        self._version = 0

    def begin_version(self) -> None:
        """Note that another version is opened, and forget what the last versions did not use."""
        self._version += 1
        for content in [c for c, used_in in self._used_in.items() if used_in < self._version - _OPEN_VERSIONS]:
            del self._open[content], self._used_in[content]

    def open(self, index: Index, record: SegmentRecord, content: Content) -> _OpenSegment:
        """Return a segment as it is in this version of an index, and its matcher."""
        known = self._open.get(content)
        mapped = known[0] if known is not None else index.map_segment(record.folder)
        view, terms = index.apply_version(mapped, record), index.manifest.terms
        if known is not None:
            matcher = known[1].adapt(terms, view.removed)
        else:
            matcher = SegmentMatcher(view.segment, terms, view.removed)
        self._open[content], self._used_in[content] = (mapped, matcher), self._version
        return view, matcher


_SEGMENTS = _SegmentCache()


class LoadedIndex:
    """An open index version. Router, analyzer and matchers are created on first use: no task needs all."""

    def __init__(self, ref: IndexRef) -> None:
        self.index, cache_folder = ref.open()
        self._token_cache = _open_token_cache(cache_folder)
        self._matcher_name = ref.matcher
        self._matchers: dict[int, list[tuple[SegmentView, Matcher]]] = {}
        self._contents = self.index.manifest.contents()
        _SEGMENTS.begin_version()
        self.loads: dict[int, MatcherLoad] = {}  # since the last `clear`, by shard
        self._is_new = True

    @cached_property
    def analyzer(self) -> Analyzer:
        return self.index.analyzer(self._token_cache.cache)

    @cached_property
    def router(self) -> Router | SpatialRouter:
        return open_router(self.index)

    def analyze(self, batch: pa.RecordBatch) -> tuple[AnalyzedBatch, NDArray[np.float64]]:
        """Return the terms and positions of posts. Rejected posts get neither, so that nothing matches them."""
        positions = read_positions(batch)
        analyzed = self.analyzer.analyze(join_searchable(batch))
        rejected = np.union1d(invalid_rows(batch, positions), analyzed.rejected)
        analyzed.bounds[rejected] = 0
        positions[rejected] = np.nan
        return replace(analyzed, rejected=rejected), positions

    def end_task(self) -> None:
        """Save the token cache for workers that start later, and return free memory. Tasks call this at their end."""
        self._token_cache.save()
        if self._is_new:  # the first task has freed an older version and what it needed to assign term ids
            self._is_new = False
            release_free_memory()

    def match(self, shard: int, analyzed: AnalyzedBatch, positions: NDArray[np.float64]) -> list[SegmentHits]:
        """Match posts with a shard; return the hits per segment. A subscription is live in one segment of a shard."""
        start = time.thread_time()
        hits = [SegmentHits(matcher.match(analyzed, positions), view) for view, matcher in self._matchers_of(shard)]
        matches = sum(len(segment.hits) for segment in hits)
        load = MatcherLoad(shard, len(analyzed), matches, time.thread_time() - start)
        self.loads[shard] = self.loads[shard] + load if shard in self.loads else load
        return hits

    def _matchers_of(self, shard: int) -> list[tuple[SegmentView, Matcher]]:
        if shard not in self._matchers:
            self._matchers[shard] = self._open_matchers(shard)
        return self._matchers[shard]

    def _open_matchers(self, shard: int) -> list[tuple[SegmentView, Matcher]]:
        if self._matcher_name != DEFAULT_MATCHER:
            open_matcher = matcher_opener(self.index, self._matcher_name)
            return [(view, open_matcher(view)) for view in self.index.open_shard(shard)]
        records = self.index.manifest.shards[shard]
        return [_SEGMENTS.open(self.index, record, self._contents[record.folder]) for record in records]


_open_token_cache = lru_cache(maxsize=2)(TokenCacheFile)


@lru_cache(maxsize=_OPEN_VERSIONS)
def open_index(ref: IndexRef) -> LoadedIndex:
    return LoadedIndex(ref)
