"""A version of an index in the making: segments, tombstones and terms are written, then the manifest, all at once."""

from __future__ import annotations

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
from tidings.index.plan_files import word_plan
from tidings.index.reader import Index
from tidings.index.segment import build_segment
from tidings.index.sharding import Share, share_out
from tidings.index.spatial_shards import AreaLeads, share_by_area, space_plan
from tidings.plan.placement.shard_terms import Held
from tidings.plan.space import SpacePlan, save_space_plan
from tidings.plan.words import LearnedPlan, save_plan
from tidings.query.anchors import Leads
from tidings.query.conjunctions import Conjunctions
from tidings.text.vocabulary import Vocabulary


@dataclass
class Draft:
    """A version in the making."""

    folder: Path
    manifest: Manifest
    written: list[str] = field(default_factory=list)

    def add(self, conjunctions: Conjunctions, ids: pa.Array, vocabulary: GrowingVocabulary) -> None:
        """Write one segment for every shard that gets a conjunction."""
        shards = list(self.manifest.shards)
        for share in self._shares(conjunctions, vocabulary):
            record = self.save_segment(share, ids.take(pa.array(share.subscriptions)))
            shards[share.number] = (*shards[share.number], record)
            self.update(shared=self.manifest.shared or bool(share.shared.any()))
        self.update(
            shards=tuple(shards),
            phrases=self.manifest.phrases or conjunctions.has_phrases,
            regions=self.manifest.regions or len(conjunctions.regions) > 0,
            subscriptions=self.manifest.subscriptions + len(ids),
        )

    def _shares(self, conjunctions: Conjunctions, vocabulary: GrowingVocabulary) -> Iterator[Share]:
        plan = self.manifest.plan
        if plan is not None and plan.space:
            return share_by_area(conjunctions, space_plan(self.folder / plan.space), vocabulary.text_of)
        return share_out(conjunctions, plan, word_plan(self.folder, plan), vocabulary.text_of, self._held)

    def _held(self) -> Held:
        """The words that the subscriptions of each shard ask for, up to now."""
        records = [(number, record) for number, shard in enumerate(self.manifest.shards) for record in shard]
        words = ((number, files.load_array(self.folder / record.folder / "words.npy")) for number, record in records)
        return Held.of(words, self.manifest.terms, len(self.manifest.shards))

    def save_plan(self, plan: LearnedPlan | SpacePlan) -> None:
        """Write the plan beside the segments; from now on `manifest.plan` names it."""
        assert self.manifest.plan is not None
        name = f"plan-{self.manifest.version:08d}-{uuid.uuid4().hex[:8]}"
        (self.folder / name).mkdir()
        if isinstance(plan, SpacePlan):
            file = f"{name}/space.parquet"
            save_space_plan(plan, self.folder / file)
            self.update(plan=replace(self.manifest.plan, space=file))
        else:
            file = f"{name}/words.parquet"
            save_plan(plan, self.folder / file)
            self.update(plan=replace(self.manifest.plan, words=file))
        self.written.append(file)

    def save_segment(self, share: Share, ids: pa.Array) -> SegmentRecord:
        """Compile and write what one shard gets."""
        segment, order = build_segment(share.conjunctions, ids).in_order_of_entries()
        leads = share.leads or Leads.of(share.conjunctions.select(np.zeros(0, np.intp)))
        areas = share.areas or AreaLeads.nothing()
        extra: dict[str, NDArray[Any]] = {
            "area_keys": areas.keys,
            "area_free": areas.free,
            "leads": leads.leads,
            "companions": leads.companions,
            "wordless": leads.wordless,
            "lead_counts": leads.counts,
            "words": share.words,
            "phrase_words": share.phrase_words,
            "split": share.split,
            "shared": share.shared[order],
        }
        name = self._save(f"segment-{share.number:04d}", {**segment.arrays(), **extra})
        files.save_ids(self.folder / name / "ids.arrow", segment.ids)
        self.written.append(f"{name}/ids.arrow")
        return SegmentRecord(name, subscriptions=len(segment))

    def remove(self, index: Index, gone: Sequence[pa.Array]) -> None:
        """Write tombstones for these ids; segments that hold none of them stay as they are."""
        removed_ids: list[pa.Array] = []
        shards = tuple(
            tuple(self._without(index, record, gone, removed_ids) for record in shard) for shard in self.manifest.shards
        )
        count = len(pa.chunked_array(removed_ids).unique()) if removed_ids else 0
        self.update(shards=shards, subscriptions=self.manifest.subscriptions - count)

    def _without(
        self, index: Index, record: SegmentRecord, gone: Sequence[pa.Array], removed_ids: list[pa.Array]
    ) -> SegmentRecord:
        live = index.live(record)
        segment = live.segment
        found = [find_ids(ids, segment.ids, segment.id_hash, segment.id_place) for ids in gone]
        places = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
        fresh = places[live.removed[places] == 0] if len(live.removed) else places
        if not len(fresh):
            return record
        removed_ids.append(segment.ids.take(pa.array(fresh)))
        whole = np.union1d(np.flatnonzero(live.removed), fresh).astype(np.uint32)
        places_file = self._save("removed", {"places": whole}) + "/places.npy"
        return replace(record, removed=places_file, gone=len(whole))

    def publish(self, vocabulary: GrowingVocabulary | None = None) -> Index:
        """Write the terms that are new and the manifest: from then on the version is there."""
        if vocabulary is not None and len(vocabulary.added):
            name = self.save_layer(vocabulary.added.terms(), self.manifest.terms + 1)
            terms = self.manifest.terms + len(vocabulary.added)
            self.update(layers=(*self.manifest.layers, name), terms=terms)
        self.update(files=self._files())
        save_manifest(self.folder, self.manifest)
        return Index(self.folder, self.manifest)

    def save_layer(self, terms: Sequence[bytes], first: int) -> str:
        """Write terms numbered from `first` on."""
        layer = Vocabulary.build(terms, first)
        parts: dict[str, NDArray[Any]] = {"text": layer.text, "starts": layer.starts, "table": layer.table}
        return self._save("vocabulary", {**parts, "first": np.array([first])})

    def _files(self) -> dict[str, files.FileRecord]:
        """All files this version consists of: those it took over and those written for it."""
        segments = [record for shard in self.manifest.shards for record in shard]
        folders = {record.folder for record in segments} | set(self.manifest.layers)
        folders |= {record.removed.split("/")[0] for record in segments if record.removed}
        plan = self.manifest.plan
        folders |= {file.split("/")[0] for file in (plan.words, plan.space, plan.before)} if plan else set()
        kept = {name: r for name, r in self.manifest.files.items() if name.split("/")[0] in folders}
        return kept | {name: files.FileRecord.of(self.folder / name) for name in self.written}

    def _save(self, kind: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        name = f"{kind}-{self.manifest.version:08d}-{uuid.uuid4().hex[:8]}"
        files.save_arrays(self.folder / name, arrays)
        self.written += [f"{name}/{array}.npy" for array in arrays]
        return name

    def update(self, **changes: object) -> None:
        self.manifest = replace(self.manifest, **changes)  # type: ignore[arg-type]
