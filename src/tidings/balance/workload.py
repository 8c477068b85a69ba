"""The workload that spatial plans are learned from: posts, and subscriptions as anchors and bounding boxes.

The *anchor* of a conjunction is the term that fewest posts contain, or 0 if it has no term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import bounding_boxes
from tidings.text.analyzer import AnalyzedBatch

WORLD = (-180.0, -90.0, 180.0, 90.0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Workload:
    """Posts (terms and positions) and conjunctions (anchors, boxes and terms).

    A conjunction whose region has several boxes has one row per box. Without a region, its box is the world, and it
    matches posts without a position too.
    """

    terms: Sequence[bytes]  # term n is terms[n - 1]
    analyzed: AnalyzedBatch
    positions: NDArray[np.float64]
    anchors: NDArray[np.uint32]
    boxes: NDArray[np.float64]
    conjunction_terms: NDArray[np.uint32]  # row i has those from conjunction_starts[i] to [i + 1]
    conjunction_starts: NDArray[np.uint64]
    scale: float = 1.0  # conjunctions per row, if the rows are a sample
    regionless: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))  # rows without a region

    @classmethod
    def build(
        cls,
        terms: Sequence[bytes],
        analyzed: AnalyzedBatch,
        positions: NDArray[np.float64],
        conjunctions: Conjunctions,
        scale: float = 1.0,
    ) -> Workload:
        """Build a workload from conjunctions whose terms are ordered, rarest first."""
        anchors = anchor_terms(conjunctions)
        with_region = np.flatnonzero(conjunctions.anchor_region >= 0)
        boxes, which = bounding_boxes(conjunctions.regions, conjunctions.anchor_region[with_region])
        without_region = np.flatnonzero(conjunctions.anchor_region < 0)
        rows = np.concatenate([with_region[which], without_region])
        selected = conjunctions.select(rows)
        all_boxes = np.concatenate([boxes, np.tile(WORLD, (len(without_region), 1))])
        free = np.arange(len(boxes), len(rows))
        return cls(terms, analyzed, positions, anchors[rows], all_boxes, selected.terms, selected.starts, scale, free)

    def select_posts(self, posts: NDArray[np.intp]) -> Workload:
        """Return the workload with only these posts."""
        analyzed = AnalyzedBatch(self.analyzed.terms, np.ascontiguousarray(self.analyzed.bounds[posts]))
        return replace(self, analyzed=analyzed, positions=np.ascontiguousarray(self.positions[posts]))

    @property
    def located(self) -> NDArray[np.intp]:
        """Return the rows of the posts that have a position."""
        return np.flatnonzero(~np.isnan(self.positions).any(axis=1))

    @property
    def updates_per_row(self) -> float:
        """Return how often a row of the conjunctions is inserted, and deleted, while the posts are matched."""
        return len(self.positions) / (2 * POSTS_PER_UPDATE * max(1, len(self.anchors)))

    def filter_by_anchors(self, posts: NDArray[np.intp], anchors: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Return those of these posts that have one of the anchors; all posts if 0 is among the anchors."""
        is_anchor = np.zeros(len(self.terms) + 1, np.uint8)
        is_anchor[anchors] = 1
        if is_anchor[0]:
            return posts
        has_anchor = np.zeros(len(posts), np.uint8)
        _mark_posts(self.analyzed.terms, self.analyzed.bounds, posts.astype(np.uint32), is_anchor, has_anchor)
        return posts[has_anchor > 0]


@kernel(types.void, read(uint32), read(uint32, 2), read(uint32), read(uint8), write(uint8))
def _mark_posts(terms, bounds, posts, is_anchor, has_anchor):  # type: ignore[no-untyped-def]
    for number in range(uint64(posts.size)):
        post = uint64(posts[number])
        for at in range(uint64(bounds[post, uint64(0)]), uint64(bounds[post, _ONE])):
            has_anchor[number] |= is_anchor[uint64(terms[at])]
