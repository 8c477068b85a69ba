"""Read an index: a directory of immutable files and manifests, opened at one version.

A version has, for each shard, a base segment, small delta segments and lists of removed subscriptions (tombstones).
A replicated index has one shard, a partitioned one has a shard per matcher of its plan. `builder.py` creates new
versions; existing files are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index import files
from tidings.index.manifest import Manifest, SegmentRecord, load_manifest, newest_version
from tidings.index.segment import Segment
from tidings.index.spatial_shards import SpatialAnchors
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.query.anchors import Anchors
from tidings.text.analyzer import NO_FLAGS, Analyzer
from tidings.text.term_statistics import TermStatistics
from tidings.text.token_cache import TokenCache
from tidings.text.vocabulary import LayeredVocabulary, Vocabulary

ANCHOR_FILES = ("route_terms", "route_companions", "route_region_only", "route_counts")
STATISTICS_FILES = ("posts", "hashes", "counts")
SPATIAL_ANCHOR_FILES = ("route_areas", "route_free_terms")


@dataclass(frozen=True, slots=True)
class SegmentView:
    """A segment, the tombstones of this version, and what routing needs of it."""

    segment: Segment
    removed: NDArray[np.uint8]  # 1 for each removed subscription; empty without removals
    anchors: Anchors  # what routes posts to the shard; empty unless there is a word plan
    terms: NDArray[np.uint32]  # all terms of the segment; empty unless there is a word plan
    phrase_terms: NDArray[np.uint32]  # the terms that occur in phrases
    split_terms: NDArray[np.uint32]  # the terms that have several splits, each on another matcher
    is_shared: NDArray[np.uint8]  # 1 for each subscription that other shards may find too
    spatial_anchors: SpatialAnchors  # what routes posts to the shard; empty unless there is a spatial plan
    by_previous_plan: bool = False  # whether the previous plan routes posts to it
    is_shared_by_plan: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))  # by one plan alone


class Index:
    """One version of an index. Arrays are mapped on first use and shared by all processes of a machine."""

    def __init__(self, folder: Path, manifest: Manifest, shard_terms: ShardTerms | None = None) -> None:
        self.folder = folder
        self.manifest = manifest
        self._shard_terms = shard_terms

    @classmethod
    def open(cls, folder: Path, version: int | None = None, thoroughly: bool = False) -> Index:
        """Open a version, by default the newest. Checks the sizes of all files and, if `thoroughly`, checksums."""
        index = cls(folder, load_manifest(folder, newest_version(folder) if version is None else version))
        for name, record in index.manifest.files.items():
            files.check_file(folder / name, record, thoroughly)
        return index

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def id_type(self) -> pa.DataType:
        """The Arrow type of the subscriptions' ids."""
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.manifest.id_schema))).field("id").type

    @property
    def size_bytes(self) -> int:
        return sum(record.size_bytes for record in self.manifest.files.values())

    @cached_property
    def vocabulary(self) -> LayeredVocabulary:
        return LayeredVocabulary([self.open_layer(name) for name in self.manifest.layers])

    @cached_property
    def statistics(self) -> TermStatistics:
        """The posts per term of the sample that anchors were chosen by."""
        if not self.manifest.statistics:
            return TermStatistics.empty()
        folder = self.folder / self.manifest.statistics
        return TermStatistics.from_arrays({name: files.load_array(folder / f"{name}.npy") for name in STATISTICS_FILES})

    def analyzer(self, token_cache: TokenCache | None = None) -> Analyzer:
        """Return an analyzer that keeps only the terms of this index. Word plans need the hashes of texts too."""
        plan, keep_gaps = self.manifest.plan, self.manifest.phrases
        return Analyzer(
            self.vocabulary,
            keep_gaps,
            self.phrase_terms() if keep_gaps else NO_FLAGS,
            token_cache,
            with_text_hashes=plan is not None and not plan.spatial_file,
        )

    def phrase_terms(self) -> NDArray[np.uint8]:
        """Return a flag for every term: whether it occurs in a phrase."""
        flags = np.zeros(self.manifest.terms + 1, np.uint8)
        for shard in self.manifest.shards:
            for record in shard:
                flags[files.load_array(self.folder / record.folder / "phrase_terms.npy")] = 1
        return flags

    def take_shard_terms(self) -> ShardTerms | None:
        """Return the map that placed the newest subscriptions, if this process did. The next version owns it then."""
        taken, self._shard_terms = self._shard_terms, None
        return taken

    def open_shard(self, number: int) -> list[SegmentView]:
        return [self.open_segment(record) for record in self.manifest.shards[number]]

    def open_segment(self, record: SegmentRecord) -> SegmentView:
        """Map the arrays of a segment, and apply the tombstones of this version."""
        return self.apply_version(self.map_segment(record.folder), record)

    def map_segment(self, name: str) -> SegmentView:
        """Map the arrays of a segment, which are the same in all versions."""
        folder = self.folder / name
        arrays = {name: files.load_array(folder / f"{name}.npy") for name in Segment.array_names()}
        segment = Segment(**arrays, ids=files.load_ids(folder / "ids.arrow"))
        names = ("terms", "phrase_terms", "split_terms", "is_shared")
        terms, phrase_terms, split_terms, is_shared = (files.load_array(folder / f"{name}.npy") for name in names)
        return SegmentView(
            segment=segment,
            removed=np.zeros(0, np.uint8),
            anchors=Anchors(*(files.load_array(folder / f"{name}.npy") for name in ANCHOR_FILES)),
            terms=terms,
            phrase_terms=phrase_terms,
            split_terms=split_terms,
            is_shared=is_shared,
            is_shared_by_plan=is_shared,
            spatial_anchors=SpatialAnchors(*(files.load_array(folder / f"{n}.npy") for n in SPATIAL_ANCHOR_FILES)),
        )

    def apply_version(self, view: SegmentView, record: SegmentRecord) -> SegmentView:
        """Add to the arrays of a segment what depends on this version: tombstones, and the plan in use."""
        removed, is_shared = view.removed, view.is_shared_by_plan
        if record.removed:
            removed = np.zeros(len(view.segment), np.uint8)
            removed[files.load_array(self.folder / record.removed)] = 1
        if self.manifest.plan is not None and self.manifest.plan.previous_file:
            is_shared = np.ones_like(is_shared)  # a post routed by one plan may find what the other plan placed there
        return replace(view, removed=removed, is_shared=is_shared, by_previous_plan=record.by_previous_plan)

    def open_layer(self, name: str) -> Vocabulary:
        """Map a layer of the vocabulary."""
        folder = self.folder / name
        first = int(files.load_array(folder / "first.npy")[0])
        return Vocabulary(first, *(files.load_array(folder / f"{part}.npy") for part in ("text", "starts", "table")))
