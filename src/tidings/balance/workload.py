"""What space plans are learned from: a sample of posts, and subscriptions as anchors and bounding boxes, on a grid.

The *anchor* of a conjunction is the word it is found by, its least frequent one (0 where it has none). The grid has
lines where many posts are, so that a cell holds few; plans are cut along these lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.layout import frequency_order
from tidings.jit import kernel, read, write
from tidings.query.anchors import lead_terms
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import boxes_of
from tidings.text.analyzer import Received

WORLD = (-180.0, -90.0, 180.0, 90.0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Workload:
    """Posts: their words (numbered from 1), where each begins and ends, positions. Conjunctions: anchors, boxes, words.

    A conjunction with a region of several boxes has several rows; one without a region has the world.
    """

    terms: Sequence[bytes]  # word n is terms[n - 1]
    received: Received
    positions: NDArray[np.float64]
    anchors: NDArray[np.uint32]
    boxes: NDArray[np.float64]
    asked: NDArray[np.uint32]  # the words of conjunction row i are asked[asked_starts[i]:asked_starts[i + 1]]
    asked_starts: NDArray[np.uint64]
    scale: float = 1.0  # how many conjunctions each stands for, where they are a sample

    @classmethod
    def of(
        cls,
        terms: Sequence[bytes],
        received: Received,
        positions: NDArray[np.float64],
        conjunctions: Conjunctions,
        scale: float = 1.0,
    ) -> Workload:
        """From conjunctions as they were compiled, with words numbered in any order."""
        rank = frequency_order(np.bincount(conjunctions.terms, minlength=len(terms) + 1))
        by_rank = np.argsort(rank, kind="stable").astype(np.uint32)
        anchors = by_rank[lead_terms(conjunctions.renumbered_terms(rank))]
        with_region = np.flatnonzero(conjunctions.anchor_region >= 0)
        boxes, which = boxes_of(conjunctions.regions, conjunctions.anchor_region[with_region])
        free = np.flatnonzero(conjunctions.anchor_region < 0)
        rows = np.concatenate([with_region[which], free])
        chosen = conjunctions.select(rows)
        everything = np.concatenate([boxes, np.tile(WORLD, (len(free), 1))])
        return cls(terms, received, positions, anchors[rows], everything, chosen.terms, chosen.starts, scale)

    def of_posts(self, posts: NDArray[np.intp]) -> Workload:
        """The same with these posts only."""
        received = Received(self.received.terms, np.ascontiguousarray(self.received.bounds[posts]))
        return replace(self, received=received, positions=np.ascontiguousarray(self.positions[posts]))

    @property
    def located(self) -> NDArray[np.intp]:
        """The posts that have a position."""
        return np.flatnonzero(~np.isnan(self.positions).any(axis=1))

    def reached(self, posts: NDArray[np.intp], anchors: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Of these posts, those that say one of these anchors; all of them when 0 is among these."""
        flags = np.zeros(len(self.terms) + 1, np.uint8)
        flags[anchors] = 1
        if flags[0]:
            return posts
        found = np.zeros(len(posts), np.uint8)
        _say(self.received.terms, self.received.bounds, posts.astype(np.uint32), flags, found)
        return posts[found > 0]


@kernel(types.void, read(uint32), read(uint32, 2), read(uint32), read(uint8), write(uint8))
def _say(terms, bounds, posts, flags, found):  # type: ignore[no-untyped-def]
    for number in range(uint64(posts.size)):
        post = uint64(posts[number])
        for at in range(uint64(bounds[post, uint64(0)]), uint64(bounds[post, _ONE])):
            found[number] |= flags[uint64(terms[at])]
