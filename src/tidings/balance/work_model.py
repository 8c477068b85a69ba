"""Estimate the work of each matcher under a spatial plan, as time, to compare plans.

Definition 1 assumes that a matcher compares every post with every subscription it holds. A matcher with an index does
less: it looks up the terms of a post that are anchors, and reports hits. Here both are counted per term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.cost_model import Counts, is_in_sorted, list_post_terms, route_terms
from tidings.balance.workload import Workload
from tidings.jit import kernel, read, write
from tidings.plan.load_model import WorkModel as WorkModel
from tidings.plan.space import SpatialPlan
from tidings.ragged import take_rows

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class WorkSample:
    """A workload, and the number of conjunctions found by each term of each post."""

    workload: Workload
    post: Counts  # ascending
    term: Counts
    hits: NDArray[np.float64]
    starts: Counts  # of the pairs of each post

    @classmethod
    def build(cls, workload: Workload) -> WorkSample:
        post, term = list_post_terms(workload)
        hits = count_hits(post, term, workload.positions, workload.anchors, workload.boxes)
        unlocated = np.flatnonzero(np.isin(post, workload.located, invert=True))
        anchors = workload.anchors[workload.regionless]
        hits[unlocated] = np.bincount(anchors, minlength=len(workload.terms) + 1)[term[unlocated]]
        starts = np.searchsorted(post, np.arange(len(workload.positions) + 1))
        return cls(workload, post, term, hits * workload.scale, starts)

    def select_posts(self, posts: NDArray[np.intp]) -> WorkSample:
        """Return the sample with only these posts, given in ascending order."""
        sizes = np.diff(self.starts)[posts]
        term, ends = take_rows(self.term, self.starts[posts], sizes)
        hits, _ = take_rows(self.hits, self.starts[posts], sizes)
        post = np.repeat(np.arange(len(posts)), sizes)
        return WorkSample(self.workload.select_posts(posts), post, term, hits, ends.astype(np.int64))

    def estimate_post_ns(self, model: WorkModel) -> NDArray[np.float64]:
        """Return the time of each post on one matcher."""
        is_anchor = np.zeros(len(self.workload.terms) + 1)
        is_anchor[self.workload.anchors] = 1
        posts = len(self.workload.positions)
        lookups = np.bincount(self.post, is_anchor[self.term], posts).astype(np.float64)
        hits = np.bincount(self.post, self.hits, posts).astype(np.float64)
        return model.load(np.ones(posts), lookups, hits, np.zeros(posts))

    def estimate_ns(self, plan: SpatialPlan, model: WorkModel) -> NDArray[np.float64]:
        """Return the time of each matcher for these posts and the updates that come with them."""
        posts, lookups, hits, held = self.count_operations(plan)
        return model.load(posts, lookups, hits, held * self.workload.updates_per_row)

    def count_operations(self, plan: SpatialPlan) -> NDArray[np.float64]:
        """Return for each matcher the posts received, anchors looked up, conjunctions found and conjunctions held."""
        routed = route_terms(plan, self.workload, self.post, self.term)
        copies = routed.copies(self.post)
        post, matcher = copies >> 16, copies & 0xFFFF
        terms, ends = take_rows(self.term, self.starts[post], np.diff(self.starts)[post])
        lookup = np.repeat(matcher, np.diff(ends).astype(np.int64))
        lookup = lookup[is_in_sorted(lookup << 32 | terms, routed.held_anchors)]
        hits = np.bincount(routed.matcher, self.hits[routed.pairs], plan.matchers)
        posts, lookups = (np.bincount(rows, minlength=plan.matchers) for rows in (matcher, lookup))
        return np.array([posts, lookups, hits, routed.conjunctions], np.float64)


def count_hits(
    post: Counts, term: Counts, positions: NDArray[np.float64], anchors: NDArray[np.integer], boxes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each (post, term) pair the number of boxes with this anchor that contain the post."""
    order = np.argsort(anchors, kind="stable")
    terms = int(max(term.max(initial=0), anchors.max(initial=0)))
    starts = np.searchsorted(anchors[order], np.arange(terms + 2)).astype(np.uint64)
    counts = np.zeros(len(post), np.uint32)
    _count_hits(post.astype(np.uint32), term.astype(np.uint32), positions, starts, boxes[order], counts)
    return counts.astype(np.float64)


@kernel(types.void, read(uint32), read(uint32), read(float64, 2), read(uint64), read(float64, 2), write(uint32))
def _count_hits(post, term, positions, starts, boxes, counts):  # type: ignore[no-untyped-def]
    for number in range(uint64(post.size)):
        lon, lat = positions[uint64(post[number]), uint64(0)], positions[uint64(post[number]), _ONE]
        anchor = uint64(term[number])
        for box in range(starts[anchor], starts[anchor + _ONE]):
            is_between = boxes[box, uint64(0)] <= lon <= boxes[box, uint64(2)]
            if is_between and boxes[box, _ONE] <= lat <= boxes[box, uint64(3)]:
                counts[number] += uint32(1)
