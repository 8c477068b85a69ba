"""Create versions of an index: the first, one with changes, a merged one, one with another plan."""

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
from tidings.index.manifest import Manifest, PlanRecord, SegmentRecord, list_versions
from tidings.index.reader import Index
from tidings.index.writer import IndexWriter
from tidings.plan.space import SpatialPlan
from tidings.plan.words import LearnedPlan, WordPlan
from tidings.query.conjunctions import Conjunctions, concatenate
from tidings.query.table import InvalidSubscription

AnyPlan = WordPlan | SpatialPlan
FitPlan = Callable[[Sequence[bytes], Conjunctions], AnyPlan]
"""From the subscribed terms, and the conjunctions that use them (by number, from 1), to a plan."""


def create_index(
    folder: Path,
    subscriptions: pa.Table,
    plan: PlanRecord | None = None,
    fit: FitPlan | None = None,
) -> tuple[Index, tuple[InvalidSubscription, ...]]:
    """Compile subscriptions (`id`, `query`, optionally `region`) into version 1 of a new index."""
    if folder.is_dir() and list_versions(folder):
        raise IndexDamaged(folder, "there is an index in this directory. Choose another directory.")
    return rebuild_index(folder, 1, subscriptions, plan, fit=fit)


def rebuild_index(
    folder: Path,
    version: int,
    subscriptions: pa.Table,
    plan: PlanRecord | None = None,
    log_position: int = 0,
    fit: FitPlan | None = None,
) -> tuple[Index, tuple[InvalidSubscription, ...]]:
    """Compile subscriptions into a version that uses no files of earlier versions.

    `fit` returns the plan, given what is subscribed; without it terms are hashed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscriptions, vocabulary)
    ids = subscriptions.column("id").combine_chunks().take(pa.array(compiled.rows))
    terms = vocabulary.added.terms()
    new_plan = fit(terms, compiled.conjunctions) if fit is not None else None
    unpublished = _build_base(folder, plan, compiled.conjunctions, ids, terms, log_position, new_plan)
    return unpublished.publish(version), compiled.invalid


def apply_changes(
    index: Index, added: pa.Table | None = None, removed: pa.Array | None = None, log_position: int = 0
) -> tuple[Index, tuple[InvalidSubscription, ...]]:
    """Publish the next version: remove subscriptions by id, then add others. An existing id is replaced.

    Small segments are merged into the new ones, so that a change is one version and each file is written once.
    """
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    writer = IndexWriter(index.folder, replace(index.manifest, version=index.version + 1, log_position=log_position))
    removed_ids = [removed] if removed is not None else []
    if added is None:
        writer.remove(index, removed_ids)
        return writer.publish(vocabulary), ()
    compiled = compile_subscriptions(added, vocabulary)
    ids = added.column("id").combine_chunks().take(pa.array(compiled.rows))
    writer.remove(index, [*removed_ids, ids])
    writer.add(compiled.conjunctions.sort_by_subscription(), ids, vocabulary)
    return writer.publish(vocabulary), compiled.invalid


def prepare_addition(index: Index, added: pa.Table) -> UnpublishedVersion:
    """Do the slow part of adding many subscriptions. The log position stays: the caller knows what is included."""
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    writer = IndexWriter(index.folder, index.manifest)
    compiled = compile_subscriptions(added, vocabulary)
    ids = added.column("id").combine_chunks().take(pa.array(compiled.rows))
    writer.remove(index, [ids])
    writer.add(compiled.conjunctions.sort_by_subscription(), ids, vocabulary)
    return UnpublishedVersion(writer, vocabulary)


def merge_index(index: Index) -> Index:
    """Publish the next version with one segment per shard: terms are renumbered, removed subscriptions dropped."""
    return prepare_merge(index).publish(index.version + 1)


@dataclass(frozen=True, slots=True)
class UnpublishedVersion:
    """A version of which only the manifest is missing: built in the background, published quickly."""

    writer: IndexWriter
    vocabulary: GrowingVocabulary

    def publish(self, version: int) -> Index:
        self.writer.update(version=version)
        return self.writer.publish(self.vocabulary)


def prepare_merge(index: Index) -> UnpublishedVersion:
    """Do the slow part of `merge_index`. Subscriptions of the previous plan are placed by the current one."""
    plan = index.manifest.plan
    if plan is not None and plan.previous_file:
        plan = replace(plan, previous_file="", version=plan.version + 1)
    merged = _recompile(index, _conjunctions_and_ids(index), plan, None)
    if plan is not None and (file := plan.word_file or plan.spatial_file):
        merged.writer.update(files={file: index.manifest.files[file]})
    return merged


def prepare_new_plan(index: Index, fit: FitPlan) -> UnpublishedVersion:
    """Prepare a merged version with all subscriptions placed by a plan that is learned now."""
    plan, subscribed = index.manifest.plan, _conjunctions_and_ids(index)
    if plan is None or subscribed is None:
        return prepare_merge(index)
    new_plan = fit(index.vocabulary.terms(), subscribed[0])
    record = replace(plan, algorithm=new_plan.algorithm, word_file="", spatial_file="", previous_file="")
    return _recompile(index, subscribed, replace(record, version=plan.version + 1), new_plan)


def live_conjunctions(index: Index) -> Conjunctions | None:
    """Return the conjunctions of all subscriptions of an index; None if it has no segments."""
    subscribed = _conjunctions_and_ids(index)
    return None if subscribed is None else subscribed[0]


def _conjunctions_and_ids(index: Index) -> tuple[Conjunctions, pa.Array] | None:
    """Return the conjunctions of an index with the ids of their subscriptions; None if it has no segments."""
    views = [view for number in range(len(index.manifest.shards)) for view in index.open_shard(number)]
    parts = [(decompile(view.segment, view.removed), view.segment.ids) for view in views]
    return concatenate(parts) if parts else None


def _recompile(
    index: Index, subscribed: tuple[Conjunctions, pa.Array] | None, plan: PlanRecord | None, new_plan: AnyPlan | None
) -> UnpublishedVersion:
    """Prepare a version with base segments only."""
    if subscribed is None:
        return UnpublishedVersion(IndexWriter(index.folder, replace(index.manifest, plan=plan)), GrowingVocabulary())
    terms, log_position = index.vocabulary.terms(), index.manifest.log_position
    return _build_base(index.folder, plan, *subscribed, terms, log_position, new_plan)


def _build_base(
    folder: Path,
    plan: PlanRecord | None,
    conjunctions: Conjunctions,
    ids: pa.Array,
    terms: Sequence[bytes],
    log_position: int,
    new_plan: AnyPlan | None = None,
) -> UnpublishedVersion:
    """Number the terms by frequency and write all conjunctions as base segments."""
    new_number, kept = number_by_frequency(conjunctions, len(terms))
    vocabulary = GrowingVocabulary()
    vocabulary.added.intern([terms[old - 1] for old in kept.tolist()])
    no_segments: tuple[SegmentRecord, ...] = ()
    manifest = Manifest(
        version=0,
        id_schema=pa.schema([("id", ids.type)]).serialize().to_pybytes().hex(),
        terms=0,
        phrases=False,
        regions=False,
        shared=False,
        subscriptions=0,
        layers=(),
        shards=(no_segments,) * (plan.matchers if plan else 1),
        plan=plan,
        files={},
        log_position=log_position,
    )
    writer = IndexWriter(folder, manifest)
    if isinstance(new_plan, LearnedPlan | SpatialPlan):
        writer.write_plan(new_plan)
    writer.add(conjunctions.renumber_terms(new_number).sort_by_subscription(), ids, vocabulary)
    return UnpublishedVersion(writer, vocabulary)


def number_by_frequency(conjunctions: Conjunctions, terms: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return (the new number of each term, the old numbers in the order of the new). Unused terms are dropped."""
    counts = np.bincount(conjunctions.terms, minlength=terms + 1)
    for residual in conjunctions.residuals:
        counts[list(residual.terms())] += 1
    new_number = layout.frequency_order(counts)
    kept = np.flatnonzero(counts)
    return np.where(counts > 0, new_number, 0).astype(np.uint32), kept[np.argsort(new_number[kept])]
