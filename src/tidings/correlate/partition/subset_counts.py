"""How many posts have all tags of a set, and how many have any: for every set of tags that occurs together.

Every post counts for all subsets of its tags. The posts that have any of them follow by inclusion and exclusion, for
all subsets of a set at once: with the counts signed by the parity of their size, the number for a subset is the sum
over its own subsets, and sums over subsets take one addition a subset and tag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagset_trie import Nodes, child, find, grown
from tidings.jit import inlined, kernel, read, write

MAX_TAGS = 10  # of a post that count: it has 2¹⁰ subsets then, and real posts have fewer than ten tags
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL_SUBSETS = 1 << MAX_TAGS


@dataclass(frozen=True, slots=True)
class Counted:
    """Sets of tags, ascending, row by row; the posts that have all of them (`support`) and those that have any."""

    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    support: NDArray[np.int64]
    union: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.support)


class Subsets:
    """Counters of all subsets of the tag sets added; what was added can be taken away again."""

    def __init__(self, expected: int = 0) -> None:
        self._nodes = Nodes(expected)
        self._counts: NDArray[np.int64] = np.zeros(self._nodes.room, np.int64)
        self._whole: NDArray[np.int64] = np.zeros(self._nodes.room, np.int64)
        self._scratch = (np.zeros(_ALL_SUBSETS, np.uint64), np.zeros(_ALL_SUBSETS, np.int64))

    def __len__(self) -> int:
        """How many sets were ever seen."""
        return len(self._nodes) - 1

    def add(self, tags: NDArray[np.uint32], starts: NDArray[np.uint64], weights: NDArray[np.int64]) -> None:
        """Count every row `weights` times; negative ones take away."""
        row = 0
        while row < len(weights):
            self._grow()
            nodes = self._nodes
            row = _count(
                tags,
                starts,
                weights,
                np.uint64(row),
                nodes.table,
                nodes.parents,
                nodes.tags,
                nodes.state,
                self._scratch[0],
                self._counts,
                self._whole,
            )

    def report(self, min_support: int) -> Counted:
        """Every set of two tags or more that at least so many of the posts have."""
        listed, unions = self._united(min_support)
        lengths = np.empty(len(listed), np.uint64)
        _measure(listed, self._nodes.parents, lengths)
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
        tags = np.empty(int(starts[-1]), np.uint32)
        _spell(listed, self._nodes.parents, self._nodes.tags, starts, tags)
        return Counted(tags, starts, self._counts[listed], unions[listed])

    def unions(self, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.int64]:
        """For rows that were added: how many posts have any of the tags."""
        _, unions = self._united(1)
        return unions[self._nodes.number(tags, starts)]

    def _united(self, min_support: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        nodes = self._nodes
        unions = np.zeros(nodes.room, np.int64)
        listed = np.empty(len(nodes), np.uint32)
        count = _unite(
            nodes.table, nodes.parents, nodes.tags, nodes.state, self._counts, self._whole, int64(min_support),
            *self._scratch, unions, listed,
        )  # fmt: skip
        return listed[:count], unions

    def _grow(self) -> None:
        self._nodes.grow(max(_ALL_SUBSETS, len(self._nodes) // 2))
        if self._nodes.room > len(self._counts):
            self._counts = grown(self._counts, self._nodes.room)
            self._whole = grown(self._whole, self._nodes.room)


@kernel(
    int64,
    read(uint32),
    read(uint64),
    read(int64),
    uint64,
    write(uint64),
    write(uint32),
    write(uint32),
    write(uint64),
    write(uint64),
    write(int64),
    write(int64),
)
def _count(rows, starts, weights, row, table, parents, tags, state, subset, counts, whole):  # type: ignore[no-untyped-def]
    """Count rows from `row` on, until the table must grow; the row to go on with."""
    room = uint64(parents.size) - uint64(_ALL_SUBSETS)
    while row < uint64(weights.size) and state[_ZERO] <= room:
        subset[_ZERO] = _ZERO
        first = starts[row]
        weight = weights[row]
        node = _ZERO
        for number in range(starts[row + _ONE] - first):
            tag = rows[first + number]
            base = _ONE << number
            for smaller in range(base):
                node = child(table, parents, tags, state, subset[smaller], tag)
                subset[base + smaller] = node
                counts[node] += weight
        whole[node] += weight
        row += _ONE
    return int64(row)


@inlined
def _is_odd(mask):  # type: ignore[no-untyped-def]
    """Whether a subset has an odd number of tags."""
    mask ^= mask >> uint64(8)
    mask ^= mask >> uint64(4)
    mask ^= mask >> uint64(2)
    return (mask ^ (mask >> _ONE)) & _ONE != _ZERO


@inlined
def _sum_over_subsets(size, sums):  # type: ignore[no-untyped-def]
    for number in range(size):
        bit = _ONE << number
        for mask in range(_ONE << size):
            if mask & bit != 0:
                sums[mask] += sums[mask ^ bit]


@inlined
def _lattice(node, table, parents, tags, counts, subset, sums):  # type: ignore[no-untyped-def]
    """The nodes of all subsets of a set and, in `sums`, their counts signed by parity; how many tags it has."""
    size, up = _ZERO, node
    while up != _ZERO:
        size += _ONE
        up = uint64(parents[up])
    up, at = node, size
    subset[_ZERO], sums[_ZERO] = _ZERO, int64(0)
    while up != _ZERO:  # tags from the largest down, noted where the subset of just that tag belongs
        at -= _ONE
        subset[_ONE << at] = uint64(tags[up])
        up = uint64(parents[up])
    for number in range(size):
        base = _ONE << number
        tag = subset[base]
        for smaller in range(base):
            found = find(table, subset[smaller], tag)
            subset[base + smaller] = found
            sums[base + smaller] = counts[found] if _is_odd(base + smaller) else -counts[found]
    return size


@kernel(
    int64,
    read(uint64),
    read(uint32),
    read(uint32),
    read(uint64),
    read(int64),
    read(int64),
    int64,
    write(uint64),
    write(int64),
    write(int64),
    write(uint32),
)
def _unite(table, parents, tags, state, counts, whole, min_support, subset, sums, unions, listed):  # type: ignore[no-untyped-def]
    """Fill `unions` for all sets in use; list those of two tags or more with the support; how many they are."""
    count = _ZERO
    for node in range(_ONE, state[_ZERO]):
        if whole[node] <= 0:
            continue
        size = _lattice(uint64(node), table, parents, tags, counts, subset, sums)
        _sum_over_subsets(size, sums)
        for mask in range(_ONE, _ONE << size):
            found = subset[mask]
            if unions[found] == 0:
                unions[found] = sums[mask]
                if mask & (mask - _ONE) != 0 and counts[found] >= min_support:
                    listed[count] = uint32(found)
                    count += _ONE
    return int64(count)


@kernel(types.void, read(uint32), read(uint32), write(uint64))
def _measure(listed, parents, lengths):  # type: ignore[no-untyped-def]
    for number in range(uint64(listed.size)):
        node, size = uint64(listed[number]), _ZERO
        while node != _ZERO:
            size += _ONE
            node = uint64(parents[node])
        lengths[number] = size


@kernel(types.void, read(uint32), read(uint32), read(uint32), read(uint64), write(uint32))
def _spell(listed, parents, tags, starts, spelt):  # type: ignore[no-untyped-def]
    for number in range(uint64(listed.size)):
        node, at = uint64(listed[number]), starts[number + _ONE]
        while node != _ZERO:
            at -= _ONE
            spelt[at] = tags[node]
            node = uint64(parents[node])
