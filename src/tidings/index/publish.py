"""Making versions of an index: the first, one with changes, one merged. A manifest appears last, all at once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import IndexDamaged
from tidings.index import files, layout
from tidings.index.compile import GrowingVocabulary, Refused, compile_subscriptions
from tidings.index.conjunctions import Conjunctions, joined
from tidings.index.decompile import decompile
from tidings.index.ids import find_ids
from tidings.index.index import Index
from tidings.index.manifest import Manifest, PlanRecord, SegmentRecord, save_manifest
from tidings.index.segment import build_segment
from tidings.index.shard import share_out
from tidings.receive.vocabulary import Vocabulary

Shards = tuple[tuple[SegmentRecord, ...], ...]


def create_index(
    folder: Path, subscriptions: pa.Table, plan: PlanRecord | None = None
) -> tuple[Index, tuple[Refused, ...]]:
    """Compile subscriptions (`id`, `query`, maybe `region`) into version 1 of a new index."""
    if folder.is_dir() and any(folder.glob("manifest-*.json")):
        raise IndexDamaged(folder, "holds an index already; choose another directory")
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscriptions, vocabulary)
    ids = subscriptions.column("id").combine_chunks().take(pa.array(compiled.rows))
    index = _publish_base(folder, 1, plan, compiled.conjunctions, ids, vocabulary.added.terms())
    return index, compiled.refused


def change_index(
    index: Index, added: pa.Table | None = None, removed: pa.Array | None = None
) -> tuple[Index, tuple[Refused, ...]]:
    """The next version: some subscriptions removed by id, then others added. An added id that is there is replaced."""
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    draft = _Draft(index.folder, replace(index.manifest, version=index.version + 1))
    gone = [removed] if removed is not None else []
    refused: tuple[Refused, ...] = ()
    if added is None:
        draft.remove(index, gone)
        return draft.publish(vocabulary), refused
    compiled = compile_subscriptions(added, vocabulary)
    ids = added.column("id").combine_chunks().take(pa.array(compiled.rows))
    draft.remove(index, [*gone, ids])
    draft.add(compiled.conjunctions.by_owner(), ids, vocabulary)
    return draft.publish(vocabulary), compiled.refused


def merge_index(index: Index) -> Index:
    """The next version with the same subscriptions in one segment a shard: words numbered anew, removed ones gone."""
    live = [segment for number in range(len(index.manifest.shards)) for segment in index.shard(number)]
    parts = [(decompile(one.segment, one.removed), one.segment.ids) for one in live]
    if not parts:
        return _Draft(index.folder, replace(index.manifest, version=index.version + 1)).publish(GrowingVocabulary())
    conjunctions, ids = joined(parts)
    terms = index.vocabulary.terms()
    return _publish_base(index.folder, index.version + 1, index.manifest.plan, conjunctions, ids, terms)


def _publish_base(
    folder: Path,
    version: int,
    plan: PlanRecord | None,
    conjunctions: Conjunctions,
    ids: pa.Array,
    terms: Sequence[bytes],
) -> Index:
    """Number the terms by frequency and publish everything as base segments."""
    new_number, kept = _by_frequency(conjunctions, len(terms))
    vocabulary = GrowingVocabulary()
    vocabulary.added.numbers([terms[old - 1] for old in kept.tolist()])
    shards: Shards = tuple(() for _ in range(plan.matchers if plan else 1))
    id_schema = pa.schema([("id", ids.type)]).serialize().to_pybytes().hex()
    draft = _Draft(folder, Manifest(version, id_schema, 0, False, False, False, 0, (), shards, plan, {}))
    draft.add(conjunctions.renumbered(new_number).by_owner(), ids, vocabulary)
    return draft.publish(vocabulary)


def _by_frequency(conjunctions: Conjunctions, terms: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """(the new number of each old one, the old numbers in the order of the new). Terms nobody needs are left out."""
    counts = np.bincount(conjunctions.terms, minlength=terms + 1)
    for program in conjunctions.programs:
        counts[list(program.terms())] += 1
    new_number = layout.frequency_order(counts)
    kept = np.flatnonzero(counts)
    return np.where(counts > 0, new_number, 0).astype(np.uint32), kept[np.argsort(new_number[kept])]


@dataclass
class _Draft:
    """A version in the making."""

    folder: Path
    manifest: Manifest
    written: list[str] = field(default_factory=list)

    def add(self, conjunctions: Conjunctions, ids: pa.Array, vocabulary: GrowingVocabulary) -> None:
        """Write one segment for every shard that gets a conjunction."""
        shards = list(self.manifest.shards)
        for share in share_out(conjunctions, self.manifest.plan, vocabulary.text_of):
            segment = build_segment(share.conjunctions, ids.take(pa.array(share.subscriptions)))
            extra: dict[str, NDArray[Any]] = {
                "leads": share.leads,
                "words": share.words,
                "phrase_words": share.phrase_words,
                "shared": share.shared,
            }
            name = self._save(f"segment-{share.number:04d}", {**segment.arrays(), **extra})
            files.save_ids(self.folder / name / "ids.arrow", segment.ids)
            self.written.append(f"{name}/ids.arrow")
            shards[share.number] = (*shards[share.number], SegmentRecord(name))
            self._update(shared=self.manifest.shared or bool(share.shared.any()))
        self._update(
            shards=tuple(shards),
            phrases=self.manifest.phrases or conjunctions.has_phrases,
            regions=self.manifest.regions or len(conjunctions.regions) > 0,
            subscriptions=self.manifest.subscriptions + len(ids),
        )

    def remove(self, index: Index, gone: Sequence[pa.Array]) -> None:
        """Write tombstones for these ids; segments that hold none of them stay as they are."""
        removed_ids: list[pa.Array] = []
        shards = tuple(
            tuple(self._without(index, record, gone, removed_ids) for record in shard) for shard in self.manifest.shards
        )
        count = len(pa.chunked_array(removed_ids).unique()) if removed_ids else 0
        self._update(shards=shards, subscriptions=self.manifest.subscriptions - count)

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
        return replace(record, removed=self._save("removed", {"places": whole}) + "/places.npy")

    def publish(self, vocabulary: GrowingVocabulary) -> Index:
        """Write the terms that are new and the manifest: from then on the version is there."""
        if len(vocabulary.added):
            layer = Vocabulary.build(vocabulary.added.terms(), self.manifest.terms + 1)
            parts: dict[str, NDArray[Any]] = {"text": layer.text, "starts": layer.starts, "table": layer.table}
            name = self._save("vocabulary", {**parts, "first": np.array([layer.first])})
            self._update(layers=(*self.manifest.layers, name), terms=self.manifest.terms + len(layer))
        self._update(files=self._files())
        save_manifest(self.folder, self.manifest)
        return Index(self.folder, self.manifest)

    def _files(self) -> dict[str, files.FileRecord]:
        """All files this version consists of: those it took over and those written for it."""
        segments = [record for shard in self.manifest.shards for record in shard]
        folders = {record.folder for record in segments} | set(self.manifest.layers)
        folders |= {record.removed.split("/")[0] for record in segments if record.removed}
        kept = {name: r for name, r in self.manifest.files.items() if name.split("/")[0] in folders}
        return kept | {name: files.FileRecord.of(self.folder / name) for name in self.written}

    def _save(self, kind: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        name = f"{kind}-{self.manifest.version:08d}-{uuid.uuid4().hex[:8]}"
        files.save_arrays(self.folder / name, arrays)
        self.written += [f"{name}/{array}.npy" for array in arrays]
        return name

    def _update(self, **changes: object) -> None:
        self.manifest = replace(self.manifest, **changes)  # type: ignore[arg-type]
