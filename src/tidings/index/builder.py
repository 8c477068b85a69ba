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
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.index.writer import IndexWriter
from tidings.plan.compact import compact
from tidings.plan.space import SpatialPlan
from tidings.plan.words import LearnedPlan, WordPlan
from tidings.query.conjunctions import Conjunctions, concatenate
from tidings.query.table import InvalidSubscription
from tidings.text.term_statistics import TermStatistics
from tidings.text.vocabulary import hash_terms

AnyPlan = WordPlan | SpatialPlan
FitPlan = Callable[[Sequence[bytes], Conjunctions], AnyPlan]
"""From the subscribed terms, and the conjunctions that use them (by number, from 1), to a plan."""
CountTerms = Callable[[], TermStatistics]
MIN_CHOICES = 1_000  # conjunctions with several terms: with fewer, matching is fast whatever the anchors are


def create_index(
    folder: Path,
    subscriptions: pa.Table,
    plan: PlanRecord | None = None,
    fit: FitPlan | None = None,
    count_terms: CountTerms | None = None,
) -> tuple[Index, tuple[InvalidSubscription, ...]]:
    """Compile subscriptions (`id`, `query`, optionally `region`) into version 1 of a new index."""
    if folder.is_dir() and list_versions(folder):
        raise IndexDamaged(folder, "there is an index in this directory. Choose another directory.")
    return rebuild_index(folder, 1, subscriptions, plan, fit=fit, count_terms=count_terms)


def rebuild_index(
    folder: Path,
    version: int,
    subscriptions: pa.Table,
    plan: PlanRecord | None = None,
    log_position: int = 0,
    fit: FitPlan | None = None,
    count_terms: CountTerms | None = None,
) -> tuple[Index, tuple[InvalidSubscription, ...]]:
    """Compile subscriptions into a version that uses no files of earlier versions.

    `fit` returns the plan, given what is subscribed; without it terms are hashed. `count_terms` returns how many posts
    contain each term; it is called only if a conjunction has a choice between terms. Without it, the term of fewest
    conjunctions is the anchor.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscriptions, vocabulary)
    ids = subscriptions.column("id").combine_chunks().take(pa.array(compiled.rows))
    statistics = _count_if_needed(compiled.conjunctions, count_terms)
    base = _BaseInput.of(compiled.conjunctions, ids, vocabulary.added.terms(), statistics)
    new_plan = fit(base.terms, base.conjunctions) if fit is not None else None
    return _build_base(folder, plan, base, log_position, new_plan).publish(version), compiled.invalid


def apply_changes(
    index: Index, added: pa.Table | None = None, removed: pa.Array | None = None, log_position: int = 0
) -> tuple[Index, tuple[InvalidSubscription, ...]]:
    """Publish the next version: remove subscriptions by id, then add others. An existing id is replaced.

    Small segments are merged into the new ones, so that a change is one version and each file is written once.
    """
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    manifest = replace(index.manifest, version=index.version + 1, log_position=log_position)
    writer = IndexWriter(index.folder, manifest, shard_terms=index.take_shard_terms())
    removed_ids = [removed] if removed is not None else []
    if added is None:
        writer.remove(index, removed_ids)
        return writer.publish(vocabulary), ()
    compiled = compile_subscriptions(added, vocabulary)
    ids = added.column("id").combine_chunks().take(pa.array(compiled.rows))
    writer.remove(index, [*removed_ids, ids])
    writer.add(_prepare_delta(index, compiled.conjunctions, vocabulary), ids, vocabulary)
    return writer.publish(vocabulary), compiled.invalid


def prepare_addition(index: Index, added: pa.Table) -> UnpublishedVersion:
    """Do the slow part of adding many subscriptions. The log position stays: the caller knows what is included."""
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    writer = IndexWriter(index.folder, index.manifest)
    compiled = compile_subscriptions(added, vocabulary)
    ids = added.column("id").combine_chunks().take(pa.array(compiled.rows))
    writer.remove(index, [ids])
    writer.add(_prepare_delta(index, compiled.conjunctions, vocabulary), ids, vocabulary)
    return UnpublishedVersion(writer, vocabulary)


def _prepare_delta(index: Index, conjunctions: Conjunctions, vocabulary: GrowingVocabulary) -> Conjunctions:
    """Order new conjunctions as the base was: anchors depend on the same statistics until the next merge."""
    return vocabulary.order_terms(conjunctions, index.statistics).sort_by_subscription()


def merge_index(index: Index, statistics: TermStatistics | None = None) -> Index:
    """Publish the next version with one segment per shard: terms are renumbered, removed subscriptions dropped."""
    return prepare_merge(index, statistics).publish(index.version + 1)


@dataclass(frozen=True, slots=True)
class UnpublishedVersion:
    """A version of which only the manifest is missing: built in the background, published quickly."""

    writer: IndexWriter
    vocabulary: GrowingVocabulary

    def publish(self, version: int) -> Index:
        self.writer.update(version=version)
        return self.writer.publish(self.vocabulary)


def prepare_merge(index: Index, statistics: TermStatistics | None = None) -> UnpublishedVersion:
    """Do the slow part of `merge_index`. Subscriptions of the previous plan are placed by the current one.

    Anchors are chosen by these statistics, or by those of the index. A spatial plan that has grown is compacted.
    """
    plan, base = index.manifest.plan, _base_of(index, statistics)
    compacted = _compact_plan(index) if base is not None else None
    if plan is not None and (plan.previous_file or compacted is not None):
        plan = replace(plan, previous_file="", version=plan.version + 1)
    if base is None:
        return _keep_empty(index, plan)
    merged = _build_base(index.folder, plan, base, index.manifest.log_position, compacted)
    if compacted is None and plan is not None and (file := plan.word_file or plan.spatial_file):
        merged.writer.update(files={file: index.manifest.files[file]})
    return merged


def _compact_plan(index: Index) -> SpatialPlan | None:
    """Return the compacted spatial plan of an index; None if it cannot be made smaller."""
    plan = index.manifest.plan
    if plan is None or not plan.spatial_file:
        return None
    old = cached_spatial_plan(index.folder / plan.spatial_file)
    new = compact(old)
    return None if new is old else new


def prepare_new_plan(index: Index, fit: FitPlan, statistics: TermStatistics | None = None) -> UnpublishedVersion:
    """Prepare a merged version with all subscriptions placed by a plan learned now, for any number of matchers."""
    plan, base = index.manifest.plan, _base_of(index, statistics)
    if plan is None or base is None:
        return prepare_merge(index, statistics)
    new_plan = fit(base.terms, base.conjunctions)
    record = replace(plan, algorithm=new_plan.algorithm, word_file="", spatial_file="", previous_file="")
    record = replace(record, version=plan.version + 1, matchers=new_plan.matchers)
    return _build_base(index.folder, record, base, index.manifest.log_position, new_plan)


def live_conjunctions(index: Index) -> Conjunctions | None:
    """Return the conjunctions of all subscriptions of an index; None if it has no segments."""
    subscribed = _conjunctions_and_ids(index)
    return None if subscribed is None else subscribed[0]


def _conjunctions_and_ids(index: Index) -> tuple[Conjunctions, pa.Array] | None:
    """Return the conjunctions of an index with the ids of their subscriptions; None if it has no segments."""
    views = [view for number in range(len(index.manifest.shards)) for view in index.open_shard(number)]
    parts = [(decompile(view.segment, view.removed), view.segment.ids) for view in views]
    return concatenate(parts) if parts else None


def _keep_empty(index: Index, plan: PlanRecord | None) -> UnpublishedVersion:
    """Prepare a version of an index without segments."""
    return UnpublishedVersion(IndexWriter(index.folder, replace(index.manifest, plan=plan)), GrowingVocabulary())


@dataclass(frozen=True, slots=True)
class _BaseInput:
    """What base segments are built from: conjunctions with ordered terms, where term n is `terms[n - 1]`.

    `new_number` numbers the terms by frequency; `kept` are the terms in use, in the order of their new numbers.
    """

    conjunctions: Conjunctions
    ids: pa.Array
    terms: Sequence[bytes]
    statistics: TermStatistics
    new_number: NDArray[np.uint32]
    kept: NDArray[np.int64]

    @classmethod
    def of(
        cls, conjunctions: Conjunctions, ids: pa.Array, terms: Sequence[bytes], statistics: TermStatistics
    ) -> _BaseInput:
        ordered, new_number, kept = order_by_posts(conjunctions, terms, statistics)
        return cls(ordered, ids, terms, statistics, new_number, kept)


def _base_of(index: Index, statistics: TermStatistics | None) -> _BaseInput | None:
    """Return all subscriptions of an index; None if it has no segments."""
    subscribed = _conjunctions_and_ids(index)
    if subscribed is None:
        return None
    return _BaseInput.of(*subscribed, index.vocabulary.terms(), statistics or index.statistics)


def _build_base(
    folder: Path,
    plan: PlanRecord | None,
    base: _BaseInput,
    log_position: int,
    new_plan: AnyPlan | None = None,
) -> UnpublishedVersion:
    """Number the terms by frequency and write all conjunctions as base segments."""
    vocabulary = GrowingVocabulary()
    vocabulary.added.intern([base.terms[old - 1] for old in base.kept.tolist()])
    no_segments: tuple[SegmentRecord, ...] = ()
    manifest = Manifest(
        version=0,
        id_schema=pa.schema([("id", base.ids.type)]).serialize().to_pybytes().hex(),
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
        writer.write_plan(compact(new_plan) if isinstance(new_plan, SpatialPlan) else new_plan)
    writer.write_statistics(base.statistics)
    writer.add(base.conjunctions.renumber_terms(base.new_number).sort_by_subscription(), base.ids, vocabulary)
    return UnpublishedVersion(writer, vocabulary)


def has_choices(conjunctions: Conjunctions) -> bool:
    """Return whether enough conjunctions have several terms for the choice of their anchors to matter."""
    return int(np.count_nonzero(np.diff(conjunctions.starts) > 1)) >= MIN_CHOICES


def _count_if_needed(conjunctions: Conjunctions, count_terms: CountTerms | None) -> TermStatistics:
    return TermStatistics.empty() if count_terms is None or not has_choices(conjunctions) else count_terms()


def compile_for_plan(subscriptions: pa.Table, count_terms: CountTerms) -> tuple[Sequence[bytes], Conjunctions]:
    """Return what `create_index` would learn a plan for."""
    vocabulary = GrowingVocabulary()
    conjunctions, terms = compile_subscriptions(subscriptions, vocabulary).conjunctions, vocabulary.added.terms()
    return terms, order_by_posts(conjunctions, terms, _count_if_needed(conjunctions, count_terms))[0]


def order_by_posts(
    conjunctions: Conjunctions, terms: Sequence[bytes], statistics: TermStatistics
) -> tuple[Conjunctions, NDArray[np.uint32], NDArray[np.int64]]:
    """Return the conjunctions as an index orders them, rarest terms first, and what `number_by_frequency` returns."""
    post_counts = statistics.counts_of(hash_terms(terms))
    new_number, kept = number_by_frequency(conjunctions, len(terms), post_counts)
    return conjunctions.order_terms(new_number[conjunctions.terms]), new_number, kept


def number_by_frequency(
    conjunctions: Conjunctions, terms: int, post_counts: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return (the new number of each term, the old numbers in the order of the new). Unused terms are dropped.

    The most frequent term comes first: that of most posts and then of most conjunctions. `post_counts[n - 1]` is the
    number of posts with term n.
    """
    counts = np.bincount(conjunctions.terms, minlength=terms + 1)
    for residual in conjunctions.residuals:
        counts[list(residual.terms())] += 1
    is_used = counts > 0
    if post_counts is not None:
        counts[1:] += np.where(is_used[1:], post_counts << 32, 0)
    new_number = layout.frequency_order(counts)
    kept = np.flatnonzero(is_used)
    return np.where(is_used, new_number, 0).astype(np.uint32), kept[np.argsort(new_number[kept])]
