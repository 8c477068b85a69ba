"""Write a new version of an index: segments, tombstones and terms first, the manifest last."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index import files
from tidings.index.compile import GrowingVocabulary
from tidings.index.id_lookup import find_ids
from tidings.index.manifest import Manifest, SegmentRecord, save_manifest
from tidings.index.merge_policy import count_to_merge, merge_segments
from tidings.index.plan_files import cached_spatial_plan, load_word_plan
from tidings.index.reader import ANCHOR_FILES, SPATIAL_ANCHOR_FILES, Index, SegmentView
from tidings.index.segment import build_segment
from tidings.index.sharding import ShardInput, shard_by_term
from tidings.index.spatial_shards import SpatialAnchors, shard_by_region
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.plan.space import SpatialPlan, write_spatial_plan
from tidings.plan.words import LearnedPlan, write_word_plan
from tidings.query.anchors import Anchors
from tidings.query.conjunctions import Conjunctions
from tidings.text.term_statistics import TermStatistics
from tidings.text.vocabulary import Vocabulary


@dataclass
class IndexWriter:
    """An unpublished version. `manifest` describes what it will contain; `written` lists its new files.

    `shard_terms` are the terms of every shard, if they are known.
    """

    folder: Path
    manifest: Manifest
    written: list[str] = field(default_factory=list)
    shard_terms: ShardTerms | None = None

    def add(self, conjunctions: Conjunctions, ids: pa.Array, vocabulary: GrowingVocabulary) -> None:
        """Write one segment for every shard that gets a conjunction, merged with small segments of that shard."""
        for shard_input in self._shard_inputs(conjunctions, vocabulary):
            self.append_to_shard(shard_input, ids.take(pa.array(shard_input.subscriptions)))
        self.update(
            phrases=self.manifest.phrases or conjunctions.has_phrases,
            regions=self.manifest.regions or len(conjunctions.regions) > 0,
            subscriptions=self.manifest.subscriptions + len(ids),
        )

    def append_to_shard(self, shard_input: ShardInput, ids: pa.Array) -> None:
        """Write one segment for a shard, merged with its small segments."""
        shards = list(self.manifest.shards)
        shards[shard_input.number] = self._append(shards[shard_input.number], shard_input, ids)
        self.update(shards=tuple(shards), shared=self.manifest.shared or bool(shard_input.is_shared.any()))

    def _append(
        self, records: tuple[SegmentRecord, ...], addition: ShardInput, ids: pa.Array
    ) -> tuple[SegmentRecord, ...]:
        """Return the segments of a shard after an addition. Segments of the previous plan are not merged."""
        sizes = [record.subscriptions for record in records if not record.by_previous_plan]
        kept = records[: len(records) - count_to_merge(sizes, len(ids))]
        if len(kept) < len(records):
            plan, index = self.manifest.plan, Index(self.folder, self.manifest)
            views = [index.open_segment(record) for record in records[len(kept) :]]
            addition, ids = merge_segments(views, addition, ids, plan is not None, self._spatial_plan())
            self._forget_terms(addition, views, kept)
        if self.shard_terms is not None:
            self.shard_terms.add(addition.number, addition.terms)
        return (*kept, self.write_segment(addition, ids))

    def _forget_terms(self, merged: ShardInput, views: Sequence[SegmentView], kept: tuple[SegmentRecord, ...]) -> None:
        """Forget the terms of segments that are merged, if neither the result nor a segment that is kept has them."""
        if self.shard_terms is None:
            return
        lost = np.setdiff1d(np.concatenate([view.terms for view in views]), merged.terms)
        for record in kept if len(lost) else ():
            lost = np.setdiff1d(lost, self._terms_of(record))
        self.shard_terms.remove(merged.number, lost)

    def _shard_inputs(self, conjunctions: Conjunctions, vocabulary: GrowingVocabulary) -> Iterator[ShardInput]:
        spatial_plan = self._spatial_plan()
        if spatial_plan is not None:
            return shard_by_region(conjunctions, spatial_plan, vocabulary.text_of)
        word_plan = load_word_plan(self.folder, self.manifest.plan)
        return shard_by_term(conjunctions, self.manifest.plan, word_plan, vocabulary.text_of, self._known_shard_terms)

    def _spatial_plan(self) -> SpatialPlan | None:
        plan = self.manifest.plan
        return cached_spatial_plan(self.folder / plan.spatial_file) if plan is not None and plan.spatial_file else None

    def _known_shard_terms(self) -> ShardTerms:
        """Return the terms of every shard, and read them unless they are known."""
        if self.shard_terms is None:
            shards = enumerate(self.manifest.shards)
            terms = ((number, self._terms_of(record)) for number, shard in shards for record in shard)
            self.shard_terms = ShardTerms.of(terms, self.manifest.terms, len(self.manifest.shards))
        return self.shard_terms

    def _terms_of(self, record: SegmentRecord) -> NDArray[Any]:
        return files.load_array(self.folder / record.folder / "terms.npy")

    def write_plan(self, plan: LearnedPlan | SpatialPlan) -> None:
        """Write a plan next to the segments, and refer to it in `manifest.plan`."""
        assert self.manifest.plan is not None
        name = self._new_folder_name("plan")
        (self.folder / name).mkdir()
        if isinstance(plan, SpatialPlan):
            file = f"{name}/space.parquet"
            write_spatial_plan(plan, self.folder / file)
            self.update(plan=replace(self.manifest.plan, spatial_file=file))
        else:
            file = f"{name}/words.parquet"
            write_word_plan(plan, self.folder / file)
            self.update(plan=replace(self.manifest.plan, word_file=file))
        self.written.append(file)

    def write_statistics(self, statistics: TermStatistics) -> None:
        """Write the statistics that the terms of conjunctions are ordered by."""
        self.update(statistics=self._write_arrays("statistics", statistics.to_arrays()) if statistics.posts else "")

    def write_segment(self, shard_input: ShardInput, ids: pa.Array) -> SegmentRecord:
        """Compile and write a segment of one shard."""
        segment, order = build_segment(shard_input.conjunctions, ids).renumber_by_entry()
        anchors = shard_input.anchors or Anchors.of(shard_input.conjunctions.select(np.zeros(0, np.intp)))
        spatial_anchors = shard_input.spatial_anchors or SpatialAnchors.empty()
        anchor_arrays = (anchors.terms, anchors.companion_signatures, anchors.region_only_signature, anchors.counts)
        arrays: dict[str, NDArray[Any]] = {
            **segment.arrays(),
            **dict(zip(ANCHOR_FILES, anchor_arrays, strict=True)),
            **dict(zip(SPATIAL_ANCHOR_FILES, (spatial_anchors.keys, spatial_anchors.free_terms), strict=True)),
            "terms": shard_input.terms,
            "phrase_terms": shard_input.phrase_terms,
            "split_terms": shard_input.split_terms,
            "is_shared": shard_input.is_shared[order],
        }
        name = self._write_arrays(f"segment-{shard_input.number:04d}", arrays)
        files.save_ids(self.folder / name / "ids.arrow", segment.ids)
        self.written.append(f"{name}/ids.arrow")
        return SegmentRecord(name, subscriptions=len(segment))

    def remove(self, index: Index, ids: Sequence[pa.Array]) -> None:
        """Write tombstones for these ids; segments without any of them stay as they are."""
        removed_ids: list[pa.Array] = []
        shards = tuple(
            tuple(self._write_tombstones(index, record, ids, removed_ids) for record in shard)
            for shard in self.manifest.shards
        )
        count = len(pa.chunked_array(removed_ids).unique()) if removed_ids else 0
        self.update(shards=shards, subscriptions=self.manifest.subscriptions - count)

    def remove_from_shard(self, index: Index, number: int, ids: pa.Array) -> None:
        """Write tombstones for these ids in one shard; they stay in others."""
        shards = list(self.manifest.shards)
        shards[number] = tuple(self._write_tombstones(index, record, [ids], []) for record in shards[number])
        self.update(shards=tuple(shards))

    def _write_tombstones(
        self, index: Index, record: SegmentRecord, ids: Sequence[pa.Array], removed_ids: list[pa.Array]
    ) -> SegmentRecord:
        """Return the record with the tombstones added, and append the ids that are new among them."""
        view = index.open_segment(record)
        segment = view.segment
        found = [find_ids(sought, segment.ids, segment.id_hash, segment.id_row) for sought in ids]
        rows = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
        new_rows = rows[view.removed[rows] == 0] if len(view.removed) else rows
        if not len(new_rows):
            return record
        removed_ids.append(segment.ids.take(pa.array(new_rows)))
        all_rows = np.union1d(np.flatnonzero(view.removed), new_rows).astype(np.uint32)
        file = self._write_arrays("removed", {"rows": all_rows}) + "/rows.npy"
        return replace(record, removed=file, removed_count=len(all_rows))

    @property
    def written_bytes(self) -> int:
        """The size of the new files so far."""
        return sum((self.folder / name).stat().st_size for name in self.written)

    def finish(self, vocabulary: GrowingVocabulary) -> Manifest:
        """Write new terms and return the manifest, the only file that is missing then."""
        if len(vocabulary.added):
            self._add_layer(vocabulary.added.terms())
        self._drop_unused()
        self.update(files=self._files())
        return self.manifest

    def publish(self, vocabulary: GrowingVocabulary) -> Index:
        """Write new terms and the manifest. The version is visible only from then on."""
        save_manifest(self.folder, self.finish(vocabulary))
        return Index(self.folder, self.manifest, self.shard_terms)

    def _add_layer(self, terms: Sequence[bytes]) -> None:
        """Write new terms as a layer of the vocabulary, merged with small layers."""
        index = Index(self.folder, self.manifest)
        layers = [index.open_layer(name) for name in self.manifest.layers]
        kept = len(layers) - count_to_merge([len(layer) for layer in layers], len(terms))
        first = layers[kept].first if kept < len(layers) else self.manifest.terms + 1
        layer = Vocabulary.build([*(term for old in layers[kept:] for term in old.terms()), *terms], first)
        arrays: dict[str, NDArray[Any]] = {"text": layer.text, "starts": layer.starts, "table": layer.table}
        name = self._write_arrays("vocabulary", {**arrays, "first": np.array([first])})
        self.update(layers=(*self.manifest.layers[:kept], name), terms=self.manifest.terms + len(terms))

    def _used_folders(self) -> set[str]:
        segments = [record for shard in self.manifest.shards for record in shard]
        plan = self.manifest.plan
        plan_files = (plan.word_file, plan.spatial_file, plan.previous_file) if plan else ()
        names = [
            *(r.folder for r in segments),
            *self.manifest.layers,
            self.manifest.statistics,
            *(r.removed or "" for r in segments),
            *plan_files,
        ]
        return {name.split("/")[0] for name in names}

    def _drop_unused(self) -> None:
        """Delete new files that the version does not use: tombstones of segments that were merged."""
        used = self._used_folders()
        unused = dict.fromkeys(name.split("/")[0] for name in self.written if name.split("/")[0] not in used)
        for folder in unused:
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        self.written = [name for name in self.written if name.split("/")[0] in used]

    def _files(self) -> dict[str, files.FileRecord]:
        """Return all files of this version: those of earlier versions and new ones."""
        used = self._used_folders()
        kept = {name: record for name, record in self.manifest.files.items() if name.split("/")[0] in used}
        return kept | {name: files.FileRecord.of(self.folder / name) for name in self.written}

    def _write_arrays(self, kind: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        name = self._new_folder_name(kind)
        files.save_arrays(self.folder / name, arrays)
        self.written += [f"{name}/{array}.npy" for array in arrays]
        return name

    def _new_folder_name(self, kind: str) -> str:
        return f"{kind}-{self.manifest.version:08d}-{uuid.uuid4().hex[:8]}"

    def update(self, **changes: object) -> None:
        """Change fields of the manifest."""
        self.manifest = replace(self.manifest, **changes)  # type: ignore[arg-type]
