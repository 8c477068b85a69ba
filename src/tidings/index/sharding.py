"""Assign conjunctions to shards: all to one, or each to a matcher that its word plan makes responsible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidings.index.manifest import PlanRecord
from tidings.plan.hot_splits import HotSplits
from tidings.plan.placement.placer import PLACERS, check_placement
from tidings.plan.placement.shard_terms import ReadShardTerms
from tidings.plan.words import WordPlan
from tidings.query.anchors import Anchors, anchor_terms
from tidings.query.conjunctions import Conjunctions
from tidings.ragged import sorted_unique

if TYPE_CHECKING:
    from tidings.index.spatial_shards import SpatialAnchors


def _no_terms() -> NDArray[np.uint32]:
    return np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class ShardInput:
    """What one shard gets: conjunctions with subscriptions numbered from 0, and the original numbers of these."""

    number: int
    conjunctions: Conjunctions
    subscriptions: NDArray[np.int64]
    phrase_terms: NDArray[np.uint32]  # the terms that occur in phrases
    is_shared: NDArray[np.uint8]  # 1 for each subscription that other shards may find too
    terms: NDArray[np.uint32] = field(default_factory=_no_terms)  # all terms of a shard of a word plan
    split_terms: NDArray[np.uint32] = field(default_factory=_no_terms)  # hot terms that have several splits
    anchors: Anchors | None = None  # what routes posts to a shard of a word plan
    spatial_anchors: SpatialAnchors | None = None  # what routes posts to a shard of a spatial plan

    @classmethod
    def of(cls, number: int, part: Conjunctions, is_shared: NDArray[np.uint8], **routing: Any) -> ShardInput:
        """Return the input of a shard that gets `part`; `is_shared` has a value for every subscription."""
        subscriptions, local = np.unique(part.subscription, return_inverse=True)
        return cls(
            number=number,
            conjunctions=replace(part, subscription=local.astype(np.uint32)),
            subscriptions=subscriptions.astype(np.int64),
            phrase_terms=phrase_terms(part),
            is_shared=is_shared[subscriptions],
            **routing,
        )


def shard_by_term(
    conjunctions: Conjunctions,
    plan: PlanRecord | None,
    word_plan: WordPlan | None,
    text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]],
    shard_terms: ReadShardTerms,
) -> Iterator[ShardInput]:
    """Yield the input of every shard that gets conjunctions. Those of one subscription must be adjacent.

    `word_plan` is the plan that `plan` refers to; `shard_terms` returns the terms that the shards have already.
    """
    if plan is None or word_plan is None:
        count = int(conjunctions.subscription.max()) + 1 if len(conjunctions) else 0
        is_shared = np.zeros(count, np.uint8)
        yield ShardInput(0, conjunctions, np.arange(count), phrase_terms(conjunctions), is_shared)
        return
    splits = _splits_by_term(conjunctions, word_plan, text_of)
    split_terms = np.flatnonzero(splits.counts > 1).astype(np.uint32)
    conjunctions = _put_unsplit_first(conjunctions, split_terms)
    row, matcher = _place(conjunctions, plan, splits, split_terms, shard_terms)
    is_shared = _is_shared(conjunctions, row, matcher)
    for number in np.unique(matcher).tolist():
        part = conjunctions.select(row[matcher == number])
        yield ShardInput.of(
            number,
            part,
            is_shared,
            terms=needed_terms(part),
            split_terms=np.intersect1d(part.terms, split_terms),
            anchors=Anchors.of(part, split_terms),
        )


def _place(
    conjunctions: Conjunctions,
    plan: PlanRecord,
    splits: HotSplits,
    split_terms: NDArray[np.uint32],
    shard_terms: ReadShardTerms,
) -> tuple[NDArray[np.intp], NDArray[np.uint16]]:
    """Return pairs (conjunction, matcher): one matcher each, or all that have a split of its hot anchor."""
    matcher_of = splits.matchers[splits.starts[:-1].astype(np.int64)]
    anchors = anchor_terms(conjunctions, split_terms)
    eligible = _without_hot_terms(conjunctions, anchors, split_terms)
    chosen = PLACERS[check_placement(plan.placer)](eligible, matcher_of, plan.matchers, plan.seed, shard_terms)
    is_hot = np.isin(anchors, split_terms)
    counts = np.where(is_hot, splits.counts[anchors], 1)
    row = np.repeat(np.arange(len(conjunctions)), counts)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = splits.starts[:-1][anchors].astype(np.int64)
    by_split = splits.matchers[np.minimum(first[row] + nth, len(splits.matchers) - 1)]
    pairs = np.unique(row << 16 | np.where(is_hot[row], by_split, chosen[row]))  # splits may share a matcher
    return pairs >> 16, (pairs & 0xFFFF).astype(np.uint16)


def _without_hot_terms(
    conjunctions: Conjunctions, anchors: NDArray[np.uint32], split_terms: NDArray[np.uint32]
) -> Conjunctions:
    """Return what conjunctions may be placed by: terms without splits, or else the anchor."""
    if not len(split_terms):
        return conjunctions
    row = np.repeat(np.arange(len(conjunctions)), np.diff(conjunctions.starts).astype(np.int64))
    kept = ~np.isin(conjunctions.terms, split_terms) | (conjunctions.terms == anchors[row])
    counts = np.bincount(row[kept], minlength=len(conjunctions))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    return replace(conjunctions, terms=conjunctions.terms[kept], starts=starts)


def needed_terms(part: Conjunctions) -> NDArray[np.uint32]:
    """Return all terms that affect a match: required ones, and those of residuals in use; ascending."""
    in_residuals = sorted({term for residual in part.used_residuals() for term in residual.terms()})
    return np.union1d(part.terms, np.array(in_residuals, np.uint32))


def phrase_terms(part: Conjunctions) -> NDArray[np.uint32]:
    """Return the terms that occur in phrases, ascending: only after these does a gap in a post matter."""
    terms = {term for residual in part.used_residuals() for term in residual.phrase_terms()}
    return np.array(sorted(terms), np.uint32)


def _splits_by_term(
    conjunctions: Conjunctions, word_plan: WordPlan, text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]]
) -> HotSplits:
    """Return the splits of every term by its number; those of terms that do not occur are placeholders."""
    used = np.unique(conjunctions.terms)
    splits = word_plan.splits_of(text_of(used))
    counts = np.ones(int(used.max()) + 1 if len(used) else 1, np.int64)
    counts[used] = splits.counts
    starts = np.concatenate([[0], np.cumsum(counts)])
    matchers = np.zeros(int(starts[-1]), np.uint16)
    matchers[np.repeat(np.isin(np.arange(len(counts)), used), counts)] = splits.matchers
    return HotSplits(matchers, starts.astype(np.uint64))


def _put_unsplit_first(conjunctions: Conjunctions, split_terms: NDArray[np.uint32]) -> Conjunctions:
    """Order terms so that the first one is the anchor that posts are routed by: the matcher looks for no other."""
    if not len(split_terms):
        return conjunctions
    count = len(conjunctions.terms)
    is_unsplit = ~np.isin(conjunctions.terms, split_terms)
    return conjunctions.order_terms((count - np.arange(count) + count * is_unsplit).astype(np.uint32))


def _is_shared(conjunctions: Conjunctions, row: NDArray[np.intp], matcher: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Return 1 for each subscription that several matchers may find in a post."""
    several_matchers = has_several(conjunctions.subscription[row], matcher)
    return (several_matchers & may_repeat(conjunctions, anchor_terms(conjunctions))).astype(np.uint8)


def may_repeat(conjunctions: Conjunctions, anchors: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return whether each subscription is found by all its matchers that get a post, not only by one.

    Only one matcher looks for an anchor in a post, but all look for conjunctions without terms.
    """
    found = has_several(conjunctions.subscription, anchors)
    found[conjunctions.subscription[anchors == 0]] = True
    return found


def has_several(subscription: NDArray[np.integer], values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return whether each subscription has several distinct values."""
    pairs = sorted_unique(subscription.astype(np.uint64) << np.uint64(32) | values.astype(np.uint64))
    return np.bincount((pairs >> np.uint64(32)).astype(np.int64)) > 1
