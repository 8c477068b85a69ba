"""Making versions of an index: the first, one with changes, one merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import IndexDamaged
from tidings.index import layout
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.decompile import decompile
from tidings.index.manifest import Manifest, PlanRecord, SegmentRecord, versions
from tidings.index.reader import Index
from tidings.index.writer import Draft
from tidings.plan.space import SpacePlan
from tidings.plan.words import LearnedPlan, WordPlan
from tidings.query.conjunctions import Conjunctions, joined
from tidings.query.table import Refused

Shards = tuple[tuple[SegmentRecord, ...], ...]


Plan = WordPlan | SpacePlan
Learn = Callable[[Sequence[bytes], Conjunctions], Plan]
"""From the subscribed words, and from what asks for them (by their numbers, from 1 on), to a plan."""


def create_index(
    folder: Path,
    subscriptions: pa.Table,
    plan: PlanRecord | None = None,
    learn: Learn | None = None,
) -> tuple[Index, tuple[Refused, ...]]:
    """Compile subscriptions (`id`, `query`, maybe `region`) into version 1 of a new index."""
    if folder.is_dir() and versions(folder):
        raise IndexDamaged(folder, "holds an index already; choose another directory")
    return rebuild_index(folder, 1, subscriptions, plan, learn=learn)


def rebuild_index(
    folder: Path,
    version: int,
    subscriptions: pa.Table,
    plan: PlanRecord | None = None,
    position: int = 0,
    learn: Learn | None = None,
) -> tuple[Index, tuple[Refused, ...]]:
    """Compile subscriptions into a version that takes over nothing from those before it.

    `learn` gives the plan once it is known what is subscribed; without it words are hashed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscriptions, vocabulary)
    ids = subscriptions.column("id").combine_chunks().take(pa.array(compiled.rows))
    terms = vocabulary.added.terms()
    learned = learn(terms, compiled.conjunctions) if learn is not None else None
    merge = _base(folder, plan, compiled.conjunctions, ids, terms, position, learned)
    return merge.publish(version), compiled.refused


def change_index(
    index: Index, added: pa.Table | None = None, removed: pa.Array | None = None, position: int = 0
) -> tuple[Index, tuple[Refused, ...]]:
    """The next version: some subscriptions removed by id, then others added. An added id that is there is replaced."""
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    draft = Draft(index.folder, replace(index.manifest, version=index.version + 1, position=position))
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
    return prepare_merge(index).publish(index.version + 1)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A version whose files are all written but the manifest, so that it can be made aside and published at once."""

    draft: Draft
    vocabulary: GrowingVocabulary

    def publish(self, version: int) -> Index:
        self.draft.update(version=version)
        return self.draft.publish(self.vocabulary)


def prepare_merge(index: Index) -> Prepared:
    """The slow part of `merge_index`. What still lay as the plan before says is placed by the one in use."""
    plan = index.manifest.plan
    if plan is not None and plan.before:
        plan = replace(plan, before="", version=plan.version + 1)
    merged = _prepared(index, _subscribed(index), plan, None)
    if plan is not None and (file := plan.words or plan.space):
        merged.draft.update(files={file: index.manifest.files[file]})
    return merged


def prepare_relearned(index: Index, learn: Learn) -> Prepared:
    """As a merge, with all subscriptions placed by a plan that is learned now, for the words subscribed now."""
    plan, subscribed = index.manifest.plan, _subscribed(index)
    if plan is None or subscribed is None:
        return prepare_merge(index)
    learned = learn(index.vocabulary.terms(), subscribed[0])
    plan = replace(plan, algorithm=learned.algorithm, words="", space="", before="", version=plan.version + 1)
    return _prepared(index, subscribed, plan, learned)


def prepare_beside(index: Index, plan: SpacePlan) -> Prepared:
    """The next version, in which new subscriptions follow this plan, and those that are there stay where they are."""
    record = index.manifest.plan
    assert record is not None
    assert record.space
    assert not record.before, "one plan at a time is changed"
    draft = Draft(index.folder, replace(index.manifest, shared=True))
    draft.update(plan=replace(record, before=record.space, algorithm=plan.algorithm, version=record.version + 1))
    draft.save_plan(plan)
    draft.update(shards=tuple(tuple(replace(one, is_old=True) for one in shard) for shard in index.manifest.shards))
    return Prepared(draft, GrowingVocabulary(index.vocabulary, index.manifest.terms))


def subscribed_now(index: Index) -> Conjunctions | None:
    """What the subscriptions of an index ask for; None: nothing."""
    found = _subscribed(index)
    return None if found is None else found[0]


def _subscribed(index: Index) -> tuple[Conjunctions, pa.Array] | None:
    """What the subscriptions of an index ask for, with their ids, without the text of their queries; None: nothing."""
    live = [segment for number in range(len(index.manifest.shards)) for segment in index.shard(number)]
    parts = [(decompile(one.segment, one.removed), one.segment.ids) for one in live]
    return joined(parts) if parts else None


def _prepared(
    index: Index, subscribed: tuple[Conjunctions, pa.Array] | None, plan: PlanRecord | None, learned: Plan | None
) -> Prepared:
    """The subscriptions of an index compiled again."""
    if subscribed is None:
        return Prepared(Draft(index.folder, replace(index.manifest, plan=plan)), GrowingVocabulary())
    return _base(index.folder, plan, *subscribed, index.vocabulary.terms(), index.manifest.position, learned)


def _base(
    folder: Path,
    plan: PlanRecord | None,
    conjunctions: Conjunctions,
    ids: pa.Array,
    terms: Sequence[bytes],
    position: int,
    learned: Plan | None = None,
) -> Prepared:
    """Number the terms by frequency and write everything as base segments."""
    new_number, kept = by_frequency(conjunctions, len(terms))
    vocabulary = GrowingVocabulary()
    vocabulary.added.numbers([terms[old - 1] for old in kept.tolist()])
    shards: Shards = tuple(() for _ in range(plan.matchers if plan else 1))
    id_schema = pa.schema([("id", ids.type)]).serialize().to_pybytes().hex()
    draft = Draft(folder, Manifest(0, id_schema, 0, False, False, False, 0, (), shards, plan, {}, position))
    if isinstance(learned, LearnedPlan | SpacePlan):
        draft.save_plan(learned)
    draft.add(conjunctions.renumbered(new_number).by_owner(), ids, vocabulary)
    return Prepared(draft, vocabulary)


def by_frequency(conjunctions: Conjunctions, terms: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """(the new number of each old one, the old numbers in the order of the new). Terms nobody needs are left out."""
    counts = np.bincount(conjunctions.terms, minlength=terms + 1)
    for program in conjunctions.programs:
        counts[list(program.terms())] += 1
    new_number = layout.frequency_order(counts)
    kept = np.flatnonzero(counts)
    return np.where(counts > 0, new_number, 0).astype(np.uint32), kept[np.argsort(new_number[kept])]
