"""Which calculators own which tags, and how good that is: communication, loads and their evenness as the paper says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagsets import TagSets
from tidings.errors import InputError
from tidings.jit import kernel, read, write

MAX_PARTITIONS = 64  # the owners of a tag are the bits of a word
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a plan costs on some tag sets, each weighed by its posts.

    `communication`: notifications a post, among those that caused any. `loads`: notifications to each calculator.
    """

    communication: float
    loads: NDArray[np.int64]
    covered: int  # posts whose tags one calculator owns whole
    posts: int

    @property
    def max_load(self) -> float:
        """The share of the most loaded calculator."""
        total = int(self.loads.sum())
        return int(self.loads.max(initial=0)) / total if total else 0.0

    @property
    def gini(self) -> float:
        return gini(self.loads)


def gini(loads: NDArray[np.integer]) -> float:
    """0 when all loads are equal, near 1 when one calculator has everything."""
    ascending = np.sort(loads.astype(np.float64))
    total, count = ascending.sum(), len(ascending)
    if total == 0:
        return 0.0
    return float((2 * np.arange(1, count + 1) - count - 1) @ ascending / (count * total))


@dataclass(frozen=True, slots=True)
class TagPlan:
    """The owners of `tags` (ascending), as bits; of all other tags nobody is the owner."""

    partitions: int
    tags: NDArray[np.uint32]
    owners: NDArray[np.uint64]

    @property
    def tag_count(self) -> int:
        """One more than the largest tag."""
        return int(self.tags[-1]) + 1 if len(self.tags) else 0

    def spread(self, size: int) -> NDArray[np.uint64]:
        """The owners of all tags below `size`."""
        wide = np.zeros(size, np.uint64)
        inside = self.tags < size
        wide[self.tags[inside]] = self.owners[inside]
        return wide

    def of(self, partition: int) -> NDArray[np.uint32]:
        """The tags of one partition."""
        return self.tags[np.flatnonzero((self.owners >> np.uint64(partition)) & _ONE)]

    def measured(self, sets: TagSets) -> Measured:
        any_of, all_of = _owners(sets, self.spread(sets.tag_count))
        loads = _loads(sets.weights, any_of, self.partitions)
        told = int(sets.weights[any_of != 0].sum())
        communication = int(loads.sum()) / told if told else 0.0
        return Measured(communication, loads, int(sets.weights[all_of != 0].sum()), int(sets.weights.sum()))


def posts_told(sets: TagSets, owners: NDArray[np.uint64], partitions: int) -> NDArray[np.int64]:
    """How many posts each calculator is told of, given the owners of all tags."""
    any_of, _ = _owners(sets, owners)
    return _loads(sets.weights, any_of, partitions)


def _owners(sets: TagSets, owners: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    any_of, all_of = np.zeros(len(sets), np.uint64), np.zeros(len(sets), np.uint64)
    _owners_of_rows(sets.tags, sets.starts, owners, any_of, all_of)
    return any_of, all_of


def _loads(weights: NDArray[np.int64], any_of: NDArray[np.uint64], partitions: int) -> NDArray[np.int64]:
    bits = (any_of[:, None] >> np.arange(partitions, dtype=np.uint64)) & _ONE
    found: NDArray[np.int64] = weights @ bits.astype(np.int64)
    return found


def checked_partitions(partitions: int) -> int:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InputError(f"The number of partitions must be between 1 and {MAX_PARTITIONS}, not {partitions}.")
    return partitions


@kernel(types.void, read(uint32), read(uint64), read(uint64), write(uint64), write(uint64))
def _owners_of_rows(tags, starts, owners, any_of, all_of):  # type: ignore[no-untyped-def]
    """Who owns any tag of a row, and who owns all of them."""
    for row in range(uint64(any_of.size)):
        one, whole = _ZERO, ~_ZERO
        for at in range(starts[row], starts[row + _ONE]):
            one |= owners[tags[at]]
            whole &= owners[tags[at]]
        any_of[row], all_of[row] = one, whole
