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
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings.plan.space import SpatialPlan
from tidings.ragged import take_rows

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class WorkModel:
    """Costs in nanoseconds. `tidings_lab.calibrate_work_model` measured the defaults on this class of machine."""

    post_ns: float = 90.0  # per post received
    term_ns: float = 140.0  # per term looked up
    hit_ns: float = 24.0  # per conjunction found
    update_ns: float = 2_800.0  # per insertion and deletion


@dataclass(frozen=True, slots=True)
class WorkSample:
    """A workload, and the number of conjunctions found by each term of each located post."""

    workload: Workload
    post: Counts  # row among the located posts, ascending
    term: Counts
    hits: NDArray[np.float64]

    @classmethod
    def build(cls, workload: Workload) -> WorkSample:
        post, term = list_post_terms(workload)
        hits = count_hits(post, term, workload.positions[workload.located], workload.anchors, workload.boxes)
        return cls(workload, post, term, hits * workload.scale)

    def estimate_post_ns(self, model: WorkModel) -> NDArray[np.float64]:
        """Return the cost of each post, located or not, on one matcher."""
        lookup_ns = np.zeros(len(self.workload.terms) + 1)
        lookup_ns[self.workload.anchors] = model.term_ns
        cost = np.full(len(self.workload.positions), model.post_ns)
        term_costs = lookup_ns[self.term] + model.hit_ns * self.hits
        cost[self.workload.located] += np.bincount(self.post, term_costs, len(self.workload.located))
        return cost

    def estimate_ns(self, plan: SpatialPlan, model: WorkModel) -> NDArray[np.float64]:
        """Return the time of each matcher for these posts and the updates that come with them."""
        posts, lookups, hits, held = self.count_operations(plan)
        updates = len(self.workload.positions) / (2 * POSTS_PER_UPDATE * max(1, len(self.workload.anchors)))
        matching = model.post_ns * posts + model.term_ns * lookups + model.hit_ns * hits
        return np.asarray(matching + model.update_ns * updates * held)

    def count_operations(self, plan: SpatialPlan) -> NDArray[np.float64]:
        """Return for each matcher the posts received, anchors looked up, conjunctions found and conjunctions held."""
        routed = route_terms(plan, self.workload, self.post, self.term)
        copies = routed.copies(self.post)
        post, matcher = copies >> 16, copies & 0xFFFF
        firsts = np.searchsorted(self.post, np.arange(len(self.workload.located) + 1))
        terms, starts = take_rows(self.term, firsts[post], np.diff(firsts)[post])
        lookup = np.repeat(matcher, np.diff(starts).astype(np.int64))
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
