"""Disjoint sets (algorithm 1): tags that are connected through tag sets stay together.

The load of a disjoint set is the number of posts with any of its tags. Every tag set lies in one disjoint set, so this
is the sum over its tag sets.
"""

from __future__ import annotations

import numpy as np
from numba import int64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagsets import TagSets
from tidings.jit import inline, kernel, read, write
from tidings.ragged import rank_values

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def find_components(sets: TagSets) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """Return the disjoint set of each tag and of each row, and the loads. Tags must be numbered from 0."""
    tags = sets.tag_count
    roots = np.arange(tags, dtype=np.uint32)
    _unite(sets.tags, sets.starts, roots)
    names, of_tag = rank_values(roots)
    of_row = of_tag[sets.tags[sets.starts[:-1].astype(np.int64)]]
    loads = np.bincount(of_row, sets.weights, minlength=len(names)).astype(np.int64)
    return of_tag, of_row, loads


def group_components(of_tag: NDArray[np.uint32], loads: NDArray[np.int64]) -> TagSets:
    """Return the disjoint sets as tag sets with their loads."""
    tags = np.argsort(of_tag, kind="stable").astype(np.uint32)
    sizes = np.bincount(of_tag, minlength=len(loads))
    return TagSets(tags, np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64), loads)


def pack_components(loads: NDArray[np.int64], carried: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the partition of each disjoint set: in descending order of load, each to the least loaded partition.

    `carried` are the loads of the partitions and is updated. Empty partitions are the least loaded ones, so the first
    sets get one partition each, as in the paper.
    """
    order = np.argsort(-loads, kind="stable").astype(np.uint32)
    chosen = np.zeros(len(loads), np.uint8)
    _pack(loads, order, carried, chosen)
    return chosen


@inline
def _root(roots, tag):  # type: ignore[no-untyped-def]
    while uint64(roots[tag]) != tag:
        roots[tag] = roots[uint64(roots[tag])]
        tag = uint64(roots[tag])
    return tag


@kernel(types.void, read(uint32), read(uint64), write(uint32))
def _unite(tags, starts, roots):  # type: ignore[no-untyped-def]
    """Write the root of each tag: the smallest tag that it is connected with."""
    for row in range(uint64(starts.size - 1)):
        first = starts[row]
        one = _root(roots, uint64(tags[first]))
        for at in range(first + _ONE, starts[row + _ONE]):
            other = _root(roots, uint64(tags[at]))
            low, high = min(one, other), max(one, other)
            roots[high] = uint32(low)
            one = low
    for tag in range(uint64(roots.size)):
        roots[tag] = uint32(_root(roots, uint64(tag)))


@kernel(types.void, read(int64), read(uint32), write(int64), write(uint8))
def _pack(loads, order, carried, chosen):  # type: ignore[no-untyped-def]
    for rank in range(uint64(order.size)):
        least = _ZERO
        for partition in range(_ONE, uint64(carried.size)):
            if carried[partition] < carried[least]:
                least = uint64(partition)
        row = uint64(order[rank])
        carried[least] += loads[row]
        chosen[row] = uint8(least)
