"""What a plan makes its workers do, counted on posts and told in time: which of several plans is the best one.

Definition 1 has every post held against every subscription of its worker. A worker that has an index does less: it
looks up the words of a post that lead to something, and reports what it finds. Both are counted here, word by word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.cost_model import Counts, is_among, led, said
from tidings.balance.workload import Workload
from tidings.jit import kernel, read, write
from tidings.plan.load_model import OBJECTS_AN_UPDATE
from tidings.plan.space import SpacePlan
from tidings.ragged import take_rows

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class WorkModel:
    """Nanoseconds: of a post that is sent, of a word of it that is looked up, of a conjunction that is found so, of an
    insertion and a deletion. The defaults are what `lab/calibrate.py` measured on this class of machine."""

    post_ns: float = 90.0
    word_ns: float = 140.0
    found_ns: float = 24.0
    update_ns: float = 2_800.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A workload, and for each word that a located post says how many conjunctions are found there by it."""

    workload: Workload
    post: Counts  # its place among the located ones, ascending
    word: Counts
    found: NDArray[np.float64]

    @classmethod
    def of(cls, workload: Workload) -> Sample:
        post, word = said(workload)
        where = workload.positions[workload.located]
        return cls(workload, post, word, find(post, word, where, workload.anchors, workload.boxes) * workload.scale)

    def post_ns(self, model: WorkModel) -> NDArray[np.float64]:
        """What each post costs where it is sent, located or not."""
        asked = np.zeros(len(self.workload.terms) + 1)
        asked[self.workload.anchors] = model.word_ns
        cost = np.full(len(self.workload.positions), model.post_ns)
        words = asked[self.word] + model.found_ns * self.found
        cost[self.workload.located] += np.bincount(self.post, words, len(self.workload.located))
        return cost

    def work(self, plan: SpacePlan, model: WorkModel) -> NDArray[np.float64]:
        """The nanoseconds of each worker, for these posts and the updates that belong to them."""
        copies, words, found, held = self.counted(plan)
        updates = len(self.workload.positions) / (2 * OBJECTS_AN_UPDATE * max(1, len(self.workload.anchors)))
        matching = model.post_ns * copies + model.word_ns * words + model.found_ns * found
        return np.asarray(matching + model.update_ns * updates * held)

    def counted(self, plan: SpacePlan) -> NDArray[np.float64]:
        """Of each worker: posts sent, words of these that lead to anything it holds, conjunctions found, and held."""
        way = led(plan, self.workload, self.post, self.word)
        copies = way.copies(self.post)
        post, worker = copies >> 16, copies & 0xFFFF
        firsts = np.searchsorted(self.post, np.arange(len(self.workload.located) + 1))
        words, starts = take_rows(self.word, firsts[post], np.diff(firsts)[post])
        asker = np.repeat(worker, np.diff(starts).astype(np.int64))
        asker = asker[is_among(asker << 32 | words, way.asked)]
        found = np.bincount(way.owner, self.found[way.leads], plan.workers)
        sent, looked_up = (np.bincount(some, minlength=plan.workers) for some in (worker, asker))
        return np.array([sent, looked_up, found, way.held], np.float64)


def find(
    post: Counts, word: Counts, where: NDArray[np.float64], anchors: NDArray[np.integer], boxes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each word that a post says how many boxes with that anchor hold the post; `where` tells the place of each."""
    order = np.argsort(anchors, kind="stable")
    terms = int(max(word.max(initial=0), anchors.max(initial=0)))
    starts = np.searchsorted(anchors[order], np.arange(terms + 2)).astype(np.uint64)
    counts = np.zeros(len(post), np.uint32)
    _find(post.astype(np.uint32), word.astype(np.uint32), where, starts, boxes[order], counts)
    return counts.astype(np.float64)


@kernel(types.void, read(uint32), read(uint32), read(float64, 2), read(uint64), read(float64, 2), write(uint32))
def _find(post, word, where, starts, boxes, counts):  # type: ignore[no-untyped-def]
    """Count for each word of a post the boxes of that word which hold it."""
    for number in range(uint64(post.size)):
        lon, lat = where[uint64(post[number]), uint64(0)], where[uint64(post[number]), _ONE]
        term = uint64(word[number])
        for box in range(starts[term], starts[term + _ONE]):
            is_between = boxes[box, uint64(0)] <= lon <= boxes[box, uint64(2)]
            if is_between and boxes[box, _ONE] <= lat <= boxes[box, uint64(3)]:
                counts[number] += uint32(1)
