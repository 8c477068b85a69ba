"""Count, for every set of co-occurring tags, the posts that have all of its tags and those that have any.

Every post counts for all subsets of its tags. The number of posts with any of the tags follows by inclusion-exclusion,
for all subsets of a set together: with counts signed by the parity of the set size, the number for a subset is the sum
over its own subsets. Sums over subsets take one addition per subset and tag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagset_trie import TagSetTrie, find, find_or_add, grow_array
from tidings.jit import inline, kernel, read, write

MAX_TAGS = 10  # of a post that count: it then has 2¹⁰ subsets; real posts have fewer than ten tags
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL_SUBSETS = 1 << MAX_TAGS


@dataclass(frozen=True, slots=True)
class CountedSets:
    """Rows of ascending tags; `support`: posts with all of them, `union`: posts with any of them."""

    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    support: NDArray[np.int64]
    union: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.support)


class SubsetCounts:
    """Counters of all subsets of the tag sets added. Added sets can be removed again."""

    def __init__(self, expected: int = 0) -> None:
        self._nodes = TagSetTrie(expected)
        self._counts: NDArray[np.int64] = np.zeros(self._nodes.capacity, np.int64)
        self._whole: NDArray[np.int64] = np.zeros(self._nodes.capacity, np.int64)
        self._scratch = (np.zeros(_ALL_SUBSETS, np.uint64), np.zeros(_ALL_SUBSETS, np.int64))

    def __len__(self) -> int:
        """Return the number of sets ever seen."""
        return len(self._nodes) - 1

    def add(self, tags: NDArray[np.uint32], starts: NDArray[np.uint64], weights: NDArray[np.int64]) -> None:
        """Count every row `weights` times; negative weights remove it."""
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

    def report(self, min_support: int) -> CountedSets:
        """Return all sets of two or more tags with at least this support."""
        listed, unions = self._compute_unions(min_support)
        lengths = np.empty(len(listed), np.uint64)
        _write_lengths(listed, self._nodes.parents, lengths)
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
        tags = np.empty(int(starts[-1]), np.uint32)
        _write_tags(listed, self._nodes.parents, self._nodes.tags, starts, tags)
        return CountedSets(tags, starts, self._counts[listed], unions[listed])

    def unions(self, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return for rows that were added the number of posts with any of their tags."""
        _, unions = self._compute_unions(1)
        return unions[self._nodes.find_or_add_rows(tags, starts)]

    def _compute_unions(self, min_support: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        nodes = self._nodes
        unions = np.zeros(nodes.capacity, np.int64)
        listed = np.empty(len(nodes), np.uint32)
        count = _unite(
            nodes.table, nodes.parents, nodes.tags, nodes.state, self._counts, self._whole, int64(min_support),
            *self._scratch, unions, listed,
        )  # fmt: skip
        return listed[:count], unions

    def _grow(self) -> None:
        self._nodes.grow(max(_ALL_SUBSETS, len(self._nodes) // 2))
        if self._nodes.capacity > len(self._counts):
            self._counts = grow_array(self._counts, self._nodes.capacity)
            self._whole = grow_array(self._whole, self._nodes.capacity)


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
    """Count rows from `row` on until the table must grow. Return the next row."""
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
                node = find_or_add(table, parents, tags, state, subset[smaller], tag)
                subset[base + smaller] = node
                counts[node] += weight
        whole[node] += weight
        row += _ONE
    return int64(row)


@inline
def _is_odd(mask):  # type: ignore[no-untyped-def]
    """Return whether a subset has an odd number of tags."""
    mask ^= mask >> uint64(8)
    mask ^= mask >> uint64(4)
    mask ^= mask >> uint64(2)
    return (mask ^ (mask >> _ONE)) & _ONE != _ZERO


@inline
def _sum_over_subsets(size, sums):  # type: ignore[no-untyped-def]
    for number in range(size):
        bit = _ONE << number
        for mask in range(_ONE << size):
            if mask & bit != 0:
                sums[mask] += sums[mask ^ bit]


@inline
def _lattice(node, table, parents, tags, counts, subset, sums):  # type: ignore[no-untyped-def]
    """Write the nodes of all subsets of a set and their counts signed by parity. Return its number of tags."""
    size, up = _ZERO, node
    while up != _ZERO:
        size += _ONE
        up = uint64(parents[up])
    up, at = node, size
    subset[_ZERO], sums[_ZERO] = _ZERO, int64(0)
    while up != _ZERO:  # tags in descending order, each stored at the offset of its one-tag subset
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
    """Write `unions` of all sets in use, and list those of two or more tags with the support. Return their number."""
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
def _write_lengths(listed, parents, lengths):  # type: ignore[no-untyped-def]
    for number in range(uint64(listed.size)):
        node, size = uint64(listed[number]), _ZERO
        while node != _ZERO:
            size += _ONE
            node = uint64(parents[node])
        lengths[number] = size


@kernel(types.void, read(uint32), read(uint32), read(uint32), read(uint64), write(uint32))
def _write_tags(listed, parents, tags, starts, written):  # type: ignore[no-untyped-def]
    for number in range(uint64(listed.size)):
        node, at = uint64(listed[number]), starts[number + _ONE]
        while node != _ZERO:
            at -= _ONE
            written[at] = tags[node]
            node = uint64(parents[node])
