"""Disjoint sets first, the oversized ones split: what `ds+scl` does.

SCL as printed gives every tag set to the least loaded partition, whatever it shares with it, and so copies frequent
tags into all of them. Here tag sets come in SCL's order, the most loaded first, but go where they cost least: the posts
that must be sent there from now on, and the part of the set's own posts by which it would lie above the average.
docs/decisions/0008 has the measurements.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.disjoint_sets import components, disjoint_sets, packed
from tidings.correlate.partition.plan import posts_told
from tidings.correlate.partition.tagsets import TagSets
from tidings.jit import inlined, kernel, read, write
from tidings.text.byte_masks import lowest_bit

EVENNESS = 1.0  # the weight of lying above the average; more evens the loads out, less saves communication
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def pieces(sets: TagSets, partitions: int) -> TagSets:
    """What a partitioner hands over: disjoint sets whole, of oversized ones the tag sets they are made of."""
    of_tag, of_row, loads = components(sets)
    split = oversized(loads, partitions)
    whole = disjoint_sets(of_tag, loads).take(np.flatnonzero(~split))
    return TagSets.together([whole, sets.take(np.flatnonzero(split[of_row]))])


def oversized(loads: NDArray[np.int64], partitions: int) -> NDArray[np.bool_]:
    """Which disjoint sets have more than a partition's share of all posts."""
    found: NDArray[np.bool_] = loads * partitions > loads.sum()
    return found


def split_and_pack(sets: TagSets, partitions: int, evenness: float = EVENNESS) -> NDArray[np.uint64]:
    """Of sets whose tags are numbered from 0 on: the partitions of each tag, as bits."""
    of_tag, of_row, loads = components(sets)
    split = oversized(loads, partitions)
    large, small = sets.take(np.flatnonzero(split[of_row])), np.flatnonzero(~split)
    owners = _shared_out(large, len(of_tag), partitions, evenness)
    chosen = np.zeros(len(loads), np.uint64)
    chosen[small] = packed(loads[small], posts_told(large, owners, partitions))
    whole = ~split[of_tag]
    owners[whole] = _ONE << chosen[of_tag[whole]]
    return owners


def _shared_out(sets: TagSets, tags: int, partitions: int, evenness: float) -> NDArray[np.uint64]:
    """The owners of all tags after these sets were shared out over all partitions."""
    lengths = np.diff(sets.starts).astype(np.int64)
    frequency = np.bincount(sets.tags, np.repeat(sets.weights, lengths), minlength=tags).astype(np.int64)
    rows = np.repeat(np.arange(len(sets)), lengths)
    loads = np.bincount(rows, frequency[sets.tags], minlength=len(sets)).astype(np.int64)
    order = np.argsort(-loads, kind="stable").astype(np.uint32)
    owners, known, carried = np.zeros(tags, np.uint64), np.zeros(partitions, np.int64), np.zeros(partitions, np.int64)
    _share_out(sets.tags, sets.starts, order, frequency, evenness, known, owners, carried)
    return owners


@inlined
def _cheapest(frequency, known, carried, evenness):  # type: ignore[no-untyped-def]
    """The partition where a set costs least; ties: less load, then the lower number."""
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
def _share_out(tags, starts, order, frequency, evenness, known, owners, carried):  # type: ignore[no-untyped-def]
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
