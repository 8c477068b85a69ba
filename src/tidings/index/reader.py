"""An index: a directory of immutable files and manifests, opened at one version.

A version is, for each shard, a base segment, small delta segments and lists of what was removed since (tombstones).
A replicated index has one shard; a partitioned one has a shard for each matcher of its plan. `publish.py` makes new
versions; nothing that is there is ever changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index import files
from tidings.index.manifest import Manifest, SegmentRecord, load_manifest, newest_version
from tidings.index.segment import Segment
from tidings.index.spatial_shards import AreaLeads
from tidings.query.anchors import Leads
from tidings.text.analyzer import Receiver
from tidings.text.token_cache import Remembered
from tidings.text.vocabulary import LayeredVocabulary, Vocabulary


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment and what this version adds to it."""

    segment: Segment
    removed: NDArray[np.uint8]  # 1 for each subscription that is gone; empty when none is
    leads: Leads  # what leads posts to this segment's shard; only partitioned indexes have them
    words: NDArray[np.uint32]  # all terms that matter to this segment; only partitioned indexes have them
    phrase_words: NDArray[np.uint32]  # the terms that stand in phrases
    split: NDArray[np.uint32]  # the terms that have several versions, each led to another matcher
    shared: NDArray[np.uint8]  # 1 for each subscription that may be found in other shards too
    areas: AreaLeads  # what leads posts to this segment's shard by their place; only with a space plan
    is_old: bool = False  # whether the plan before this one leads posts to it


class Index:
    """One version of an index. Its arrays are mapped when first used and shared by all processes of a machine."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, folder: Path, version: int | None = None, thoroughly: bool = False) -> Index:
        """Open a version, the newest unless told. Every file must be there with its size, and its checksum if asked."""
        index = cls(folder, load_manifest(folder, newest_version(folder) if version is None else version))
        for name, record in index.manifest.files.items():
            files.check_file(folder / name, record, thoroughly)
        return index

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def id_type(self) -> pa.DataType:
        """The type of the subscriptions' ids."""
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.manifest.id_schema))).field("id").type

    @property
    def size_bytes(self) -> int:
        return sum(record.size_bytes for record in self.manifest.files.values())

    @cached_property
    def vocabulary(self) -> LayeredVocabulary:
        return LayeredVocabulary([self.layer(name) for name in self.manifest.layers])

    def receiver(self, remembered: Remembered | None = None) -> Receiver:
        """A receiver that keeps of posts what this index asks for, and nothing else."""
        if not self.manifest.phrases:
            return Receiver(self.vocabulary, remembered=remembered)
        return Receiver(self.vocabulary, keep_gaps=True, gaps_after=self.phrase_terms(), remembered=remembered)

    def phrase_terms(self) -> NDArray[np.uint8]:
        """A flag for every term: whether it stands in a phrase."""
        flags = np.zeros(self.manifest.terms + 1, np.uint8)
        for shard in self.manifest.shards:
            for record in shard:
                flags[files.load_array(self.folder / record.folder / "phrase_words.npy")] = 1
        return flags

    def shard(self, number: int) -> list[LiveSegment]:
        return [self.live(record) for record in self.manifest.shards[number]]

    def live(self, record: SegmentRecord) -> LiveSegment:
        folder = self.folder / record.folder
        arrays = {name: files.load_array(folder / f"{name}.npy") for name in Segment.array_names()}
        segment = Segment(**arrays, ids=files.load_ids(folder / "ids.arrow"))
        removed = np.zeros(0, np.uint8)
        if record.removed:
            removed = np.zeros(len(segment), np.uint8)
            removed[files.load_array(self.folder / record.removed)] = 1
        names = ("leads", "companions", "wordless", "lead_counts")
        leads = Leads(*(files.load_array(folder / f"{name}.npy") for name in names))
        names = ("words", "phrase_words", "split", "shared")
        words, phrase_words, split, shared = (files.load_array(folder / f"{name}.npy") for name in names)
        areas = AreaLeads(*(files.load_array(folder / f"{name}.npy") for name in ("area_keys", "area_free")))
        if self.manifest.plan is not None and self.manifest.plan.before:
            shared = np.ones_like(shared)  # a post that one plan sends somewhere may find there what the other placed
        return LiveSegment(segment, removed, leads, words, phrase_words, split, shared, areas, record.is_old)

    def layer(self, name: str) -> Vocabulary:
        folder = self.folder / name
        first = int(files.load_array(folder / "first.npy")[0])
        return Vocabulary(first, *(files.load_array(folder / f"{part}.npy") for part in ("text", "starts", "table")))
