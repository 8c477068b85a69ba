"""`ds+scl`: disjoint sets, of which oversized ones are split.

SCL as printed gives every tag set to the least loaded partition, even if they share no tag, and so copies frequent
tags into all partitions. Here tag sets come in the order of SCL (descending load) but go where they cost least: the
posts that must be sent there additionally, plus a penalty for exceeding the mean load. See docs/decisions/0008 for
measurements.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.disjoint_sets import find_components, group_components, pack_components
from tidings.correlate.partition.plan import count_notified_posts
from tidings.correlate.partition.tagsets import TagSets
from tidings.jit import inline, kernel, read, write
from tidings.text.byte_masks import lowest_bit

EVENNESS = 1.0  # weight of exceeding the mean load: a larger value evens out the loads, a smaller one saves messages
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def split_into_pieces(sets: TagSets, partitions: int) -> TagSets:
    """Return the disjoint sets, with each oversized one replaced by its tag sets."""
    of_tag, of_row, loads = find_components(sets)
    split = is_oversized(loads, partitions)
    whole = group_components(of_tag, loads).take(np.flatnonzero(~split))
    return TagSets.concat([whole, sets.take(np.flatnonzero(split[of_row]))])


def is_oversized(loads: NDArray[np.int64], partitions: int) -> NDArray[np.bool_]:
    """Return for each disjoint set whether it has more posts than the mean per partition."""
    is_larger: NDArray[np.bool_] = loads * partitions > loads.sum()
    return is_larger


def split_and_pack(sets: TagSets, partitions: int, evenness: float = EVENNESS) -> NDArray[np.uint64]:
    """Return the partitions of each tag, as bits. Tags must be numbered from 0."""
    of_tag, of_row, loads = find_components(sets)
    split = is_oversized(loads, partitions)
    large, small = sets.take(np.flatnonzero(split[of_row])), np.flatnonzero(~split)
    owners = _distribute(large, len(of_tag), partitions, evenness)
    chosen = np.zeros(len(loads), np.uint64)
    chosen[small] = pack_components(loads[small], count_notified_posts(large, owners, partitions))
    whole = ~split[of_tag]
    owners[whole] = _ONE << chosen[of_tag[whole]]
    return owners


def _distribute(sets: TagSets, tags: int, partitions: int, evenness: float) -> NDArray[np.uint64]:
    """Distribute tag sets over all partitions. Return the owners of all tags."""
    lengths = np.diff(sets.starts).astype(np.int64)
    frequency = np.bincount(sets.tags, np.repeat(sets.weights, lengths), minlength=tags).astype(np.int64)
    rows = np.repeat(np.arange(len(sets)), lengths)
    loads = np.bincount(rows, frequency[sets.tags], minlength=len(sets)).astype(np.int64)
    order = np.argsort(-loads, kind="stable").astype(np.uint32)
    owners, known, carried = np.zeros(tags, np.uint64), np.zeros(partitions, np.int64), np.zeros(partitions, np.int64)
    _assign_sets(sets.tags, sets.starts, order, frequency, evenness, known, owners, carried)
    return owners


@inline
def _cheapest(frequency, known, carried, evenness):  # type: ignore[no-untyped-def]
    """Return the partition where a set costs least; ties: less load, then the lower number."""
    total = int64(0)
    for partition in range(uint64(carried.size)):
        total += carried[partition]
    mean = float64(total) / float64(carried.size) + 1.0
    best, best_cost = _ZERO, float64(np.inf)
    for partition in range(uint64(carried.size)):
        extra = frequency - known[partition]
        over = max(0.0, float64(carried[partition] + extra) - mean)
        cost = float64(extra) + evenness * float64(frequency) * over / mean
        if cost < best_cost or (cost == best_cost and carried[partition] < carried[best]):
            best, best_cost = uint64(partition), cost
    return best


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint32),
    read(int64),
    float64,
    write(int64),
    write(uint64),
    write(int64),
)
def _assign_sets(tags, starts, order, frequency, evenness, known, owners, carried):  # type: ignore[no-untyped-def]
    for rank in range(uint64(order.size)):
        row = uint64(order[rank])
        known[:] = 0
        load = int64(0)
        for at in range(starts[row], starts[row + _ONE]):
            tag = uint64(tags[at])
            load += frequency[tag]
            left = owners[tag]
            while left != _ZERO:
                known[lowest_bit(left)] += frequency[tag]
                left &= left - _ONE
        best = _cheapest(load, known, carried, evenness)
        carried[best] += load - known[best]
        for at in range(starts[row], starts[row + _ONE]):
            owners[uint64(tags[at])] |= _ONE << best
