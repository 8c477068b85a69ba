"""Assign conjunctions to shards by a spatial plan: to every matcher that gets posts they may match.

A conjunction with a region goes, for every area that its region touches, to the matcher of its anchor there. One
without a region goes to all matchers that are responsible for its anchor anywhere. Posts are routed to it by
(area, term) or by the term alone: the H2 of PS²Stream's dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.index.sharding import ShardInput, may_repeat
from tidings.plan.space import SpatialPlan
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import bounding_boxes
from tidings.ragged import sorted_unique

_NO_TERMS = np.zeros(0, np.uint32)
_TERM_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class SpatialAnchors:
    """What routes posts to a segment: ``area << 32 | term`` (0 for no term), and terms that do so in every area."""

    keys: NDArray[np.uint64]
    free_terms: NDArray[np.uint32]

    @classmethod
    def empty(cls) -> SpatialAnchors:
        return cls(np.zeros(0, np.uint64), _NO_TERMS)

    @classmethod
    def of(cls, conjunctions: Conjunctions, plan: SpatialPlan) -> SpatialAnchors:
        anchors = anchor_terms(conjunctions)
        area, row = touched_areas(conjunctions, plan)
        keys = plan.former_ids[area].astype(np.uint64) << _TERM_BITS | anchors[row]
        return cls(sorted_unique(keys), sorted_unique(anchors[conjunctions.anchor_region < 0]))

    def union(self, others: Sequence[SpatialAnchors]) -> SpatialAnchors:
        """Return these and the keys of others; free terms of others may have lost their last conjunction."""
        keys = sorted_unique(np.concatenate([self.keys, *(other.keys for other in others)]))
        return SpatialAnchors(keys, self.free_terms)


def touched_areas(conjunctions: Conjunctions, plan: SpatialPlan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (area, conjunction) for all areas that the regions of conjunctions touch."""
    rows = np.flatnonzero(conjunctions.anchor_region >= 0)
    boxes, which = bounding_boxes(conjunctions.regions, conjunctions.anchor_region[rows])
    return plan.areas_of(boxes, rows[which])


def shard_by_region(
    conjunctions: Conjunctions,
    plan: SpatialPlan,
    text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]],
) -> Iterator[ShardInput]:
    """Yield the input of every shard that gets conjunctions. Those of one subscription must be adjacent."""
    placement = place(conjunctions, plan, text_of)
    is_shared = _is_shared(conjunctions, placement)
    for number in np.unique(placement.matcher).tolist():
        part = conjunctions.select(sorted_unique(placement.row[placement.matcher == number])).compact()
        yield ShardInput.of(number, part, is_shared, spatial_anchors=SpatialAnchors.of(part, plan))


@dataclass(frozen=True, slots=True)
class Placement:
    """Pairs of conjunction and matcher, and whether a post routed there may be routed to other matchers too."""

    row: NDArray[np.int64]
    matcher: NDArray[np.int64]
    may_repeat: NDArray[np.bool_]

    @property
    def keys(self) -> NDArray[np.int64]:
        """The pairs as conjunction << 16 | matcher, ascending, each once."""
        return sorted_unique(self.row << 16 | self.matcher)

    def shared_subscriptions(self, subscription: NDArray[np.uint32], count: int) -> NDArray[np.bool_]:
        """Return whether each subscription is on several matchers and in an area whose posts go to several."""
        owner = subscription[self.row].astype(np.int64)
        may_repeat = np.bincount(owner[self.may_repeat], minlength=count) > 0
        pairs = sorted_unique(owner << 16 | self.matcher)
        return np.asarray(may_repeat & (np.bincount(pairs >> 16, minlength=count) > 1))


def place(
    conjunctions: Conjunctions, plan: SpatialPlan, text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]]
) -> Placement:
    """Return the matchers of each conjunction."""
    anchors = anchor_terms(conjunctions)
    used = np.unique(anchors[anchors > 0])
    column = np.where(anchors > 0, np.searchsorted(used, anchors) + 1, 0)
    row_of, matchers = plan.matchers_of(text_of(used))
    area, row = touched_areas(conjunctions, plan)
    free = np.flatnonzero(conjunctions.anchor_region < 0)
    everywhere = matchers[:, column[free]].ravel().astype(np.int64)
    is_shared = np.array([area.is_shared for area in plan.areas])
    rows = np.concatenate([row, np.tile(free, len(matchers))])
    matcher = np.concatenate([matchers[row_of[area], column[row]].astype(np.int64), everywhere])
    several = np.concatenate([is_shared[area], np.ones(len(everywhere), bool)])
    subscriptions = may_repeat(conjunctions, anchors)[conjunctions.subscription[rows]]
    return Placement(rows, matcher, several & subscriptions)


def _is_shared(conjunctions: Conjunctions, placement: Placement) -> NDArray[np.uint8]:
    count = int(conjunctions.subscription.max()) + 1 if len(conjunctions) else 0
    return placement.shared_subscriptions(conjunctions.subscription, count).astype(np.uint8)
