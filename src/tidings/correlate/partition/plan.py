"""A tag plan: which calculators own which tags, and the quality metrics of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagsets import TagSets
from tidings.errors import InputError
from tidings.jit import kernel, read, write

MAX_PARTITIONS = 64  # the owners of a tag are the bits of one integer
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class TagPlanMetrics:
    """The cost of a plan for tag sets that are weighted by their posts."""

    communication: float  # notifications per post, among posts that caused any
    loads: NDArray[np.int64]  # notifications to each calculator
    covered: int  # posts all of whose tags are owned by one calculator
    posts: int

    @property
    def max_load(self) -> float:
        """Return the share of the most loaded calculator."""
        total = int(self.loads.sum())
        return int(self.loads.max(initial=0)) / total if total else 0.0

    @property
    def gini(self) -> float:
        return compute_gini(self.loads)


def compute_gini(loads: NDArray[np.integer]) -> float:
    """Return 0 if all loads are equal, near 1 if one calculator has all of it."""
    ascending = np.sort(loads.astype(np.float64))
    total, count = ascending.sum(), len(ascending)
    if total == 0:
        return 0.0
    return float((2 * np.arange(1, count + 1) - count - 1) @ ascending / (count * total))


@dataclass(frozen=True, slots=True)
class TagPlan:
    """The owners of `tags` (ascending), as bits. Other tags have no owner."""

    partitions: int
    tags: NDArray[np.uint32]
    owners: NDArray[np.uint64]

    @property
    def tag_count(self) -> int:
        """Return the largest tag plus 1."""
        return int(self.tags[-1]) + 1 if len(self.tags) else 0

    def owners_by_tag(self, size: int) -> NDArray[np.uint64]:
        """Return the owners of all tags below `size`."""
        owners = np.zeros(size, np.uint64)
        inside = self.tags < size
        owners[self.tags[inside]] = self.owners[inside]
        return owners

    def tags_of(self, partition: int) -> NDArray[np.uint32]:
        """Return the tags of one partition."""
        return self.tags[np.flatnonzero((self.owners >> np.uint64(partition)) & _ONE)]

    def measure(self, sets: TagSets) -> TagPlanMetrics:
        any_of, all_of = _find_owners(sets, self.owners_by_tag(sets.tag_count))
        loads = _sum_loads(sets.weights, any_of, self.partitions)
        notified = int(sets.weights[any_of != 0].sum())
        communication = int(loads.sum()) / notified if notified else 0.0
        return TagPlanMetrics(communication, loads, int(sets.weights[all_of != 0].sum()), int(sets.weights.sum()))


def count_notified_posts(sets: TagSets, owners: NDArray[np.uint64], partitions: int) -> NDArray[np.int64]:
    """Return the number of posts that each calculator is notified of, given the owners of all tags."""
    any_of, _ = _find_owners(sets, owners)
    return _sum_loads(sets.weights, any_of, partitions)


def _find_owners(sets: TagSets, owners: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    any_of, all_of = np.zeros(len(sets), np.uint64), np.zeros(len(sets), np.uint64)
    _owners_of_rows(sets.tags, sets.starts, owners, any_of, all_of)
    return any_of, all_of


def _sum_loads(weights: NDArray[np.int64], any_of: NDArray[np.uint64], partitions: int) -> NDArray[np.int64]:
    bits = (any_of[:, None] >> np.arange(partitions, dtype=np.uint64)) & _ONE
    loads: NDArray[np.int64] = weights @ bits.astype(np.int64)
    return loads


def check_partitions(partitions: int) -> int:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InputError(f"partitions {partitions}: out of range. Choose a number from 1 to {MAX_PARTITIONS}.")
    return partitions


@kernel(types.void, read(uint32), read(uint64), read(uint64), write(uint64), write(uint64))
def _owners_of_rows(tags, starts, owners, any_of, all_of):  # type: ignore[no-untyped-def]
    """Write for each row the calculators that own any of its tags, and those that own all of them."""
    for row in range(uint64(any_of.size)):
        some, whole = _ZERO, ~_ZERO
        for at in range(starts[row], starts[row + _ONE]):
            some |= owners[tags[at]]
            whole &= owners[tags[at]]
        any_of[row], all_of[row] = some, whole
