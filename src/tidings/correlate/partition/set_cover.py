"""Set cover (algorithms 2 to 5): start with k tag sets, then assign every other one to the best partition.

There are three rules: `scc` minimises communication, `scl` evens out the loads, `sci` is the earlier rule without
costs. "Best" is lexicographic: one criterion, ties by the other, then a fixed order. The next tag set is always the
one with the smallest key. Keys only grow as more tags are covered, so it suffices to recompute the key of the top of a
heap before taking it.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagsets import TagSets
from tidings.jit import inline, kernel, read, write
from tidings.text.byte_masks import lowest_bit

RULES = ("scc", "scl", "sci")
_SCC, _SCL, _SCI = (np.int64(number) for number in range(3))
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def cover_tags(
    sets: TagSets, loads: NDArray[np.int64], partitions: int, rule: str, seed: int = 0
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the partitions of each tag, as bits, and the load of each partition. Tags must be numbered from 0.

    `loads` is the number of posts with any tag of each row; `sci` draws its order with `seed`.
    """
    number = np.int64(RULES.index(rule))
    tags = sets.tag_count
    owners, carried = np.zeros(tags, np.uint64), np.zeros(partitions, np.int64)
    taken = np.zeros(len(sets), np.bool_)
    _begin(sets.tags, sets.starts, loads, number, taken, owners, carried)
    rest = np.flatnonzero(~taken).astype(np.uint32)
    keys = np.zeros((2, len(sets)), np.int64)
    if rule == "sci":
        keys[0, rest] = np.random.default_rng([seed, len(rest)]).permutation(len(rest))
    _assign(sets.tags, sets.starts, loads, number, rest, keys, owners, carried, np.zeros(partitions, np.int64))
    return owners, carried


@inline
def _uncovered(tags, first, last, owners):  # type: ignore[no-untyped-def]
    count = int64(0)
    for at in range(first, last):
        count += int64(owners[tags[at]] == _ZERO)
    return count


@inline
def _add_owner(tags, first, last, partition, owners):  # type: ignore[no-untyped-def]
    for at in range(first, last):
        owners[tags[at]] |= _ONE << partition


@kernel(types.void, read(uint32), read(uint64), read(int64), int64, write(types.boolean), write(uint64), write(int64))
def _begin(tags, starts, loads, rule, taken, owners, carried):  # type: ignore[no-untyped-def]
    """Algorithm 2: choose the first tag set of each partition; the cost depends on the rule."""
    rows = uint64(taken.size)
    total = int64(0)
    for partition in range(min(uint64(carried.size), rows)):
        best, best_cost, best_new = rows, float64(np.inf), int64(-1)
        for row in range(rows):
            if taken[row]:
                continue
            first, last = starts[row], starts[row + _ONE]
            new = _uncovered(tags, first, last, owners)
            cost = float64(0)
            if rule == _SCC:
                cost = float64(int64(last - first) - new)
            elif rule == _SCL:
                share = float64(loads[row]) / float64(total + loads[row])
                cost = abs(1.0 / float64(partition + _ONE) - share)
            if cost < best_cost or (cost == best_cost and new > best_new):
                best, best_cost, best_new = uint64(row), cost, new
        taken[best] = True
        total += loads[best]
        carried[partition] = loads[best]
        _add_owner(tags, starts[best], starts[best + _ONE], uint64(partition), owners)


@inline
def _update_key(row, tags, starts, loads, rule, owners, keys):  # type: ignore[no-untyped-def]
    """Update the key of a tag set. Return whether it has grown."""
    if rule == _SCI:
        return False
    first, last = starts[row], starts[row + _ONE]
    new, size = _uncovered(tags, first, last, owners), int64(last - first)
    primary = -new if rule == _SCC else -loads[row]
    secondary = size if rule == _SCC else size - new
    grown = primary != keys[_ZERO, row] or secondary != keys[_ONE, row]
    keys[_ZERO, row], keys[_ONE, row] = primary, secondary
    return grown


@inline
def _is_before(one, other, keys):  # type: ignore[no-untyped-def]
    if keys[_ZERO, one] != keys[_ZERO, other]:
        return keys[_ZERO, one] < keys[_ZERO, other]
    if keys[_ONE, one] != keys[_ONE, other]:
        return keys[_ONE, one] < keys[_ONE, other]
    return one < other


@inline
def _sink(heap, at, size, keys):  # type: ignore[no-untyped-def]
    """Move the row at a position of the heap down to where it belongs."""
    row = heap[at]
    while True:
        below = at * uint64(2) + _ONE
        if below >= size:
            break
        if below + _ONE < size and _is_before(uint64(heap[below + _ONE]), uint64(heap[below]), keys):
            below += _ONE
        if not _is_before(uint64(heap[below]), uint64(row), keys):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = row


@inline
def _best_partition(tags, first, last, rule, turn, owners, carried, shared):  # type: ignore[no-untyped-def]
    """Return the best partition of a tag set. `sci` has no second criterion: ties go to the first from `turn` on."""
    shared[:] = 0
    for at in range(first, last):
        left = owners[tags[at]]
        while left != _ZERO:
            shared[lowest_bit(left)] += 1
            left &= left - _ONE
    count = uint64(carried.size)
    start = turn if rule == _SCI else _ZERO
    best = start % count
    for step in range(_ONE, count):
        one = (start + step) % count
        more, less = shared[one] - shared[best], carried[best] - carried[one]
        if rule == _SCL:
            better = less > 0 or (less == 0 and more > 0)
        else:
            better = more > 0 or (rule == _SCC and more == 0 and less > 0)
        if better:
            best = one
    return best


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(int64),
    int64,
    write(uint32),
    write(int64, 2),
    write(uint64),
    write(int64),
    write(int64),
)
def _assign(tags, starts, loads, rule, heap, keys, owners, carried, shared):  # type: ignore[no-untyped-def]
    """Algorithms 3 (scc), 4 (scl) and 5 (sci): assign all tag sets in `heap`, one after another."""
    size = uint64(heap.size)
    for place in range(size):
        _update_key(uint64(heap[place]), tags, starts, loads, rule, owners, keys)
    for back in range(size // uint64(2)):
        _sink(heap, size // uint64(2) - _ONE - back, size, keys)
    turn = _ZERO
    while size > _ZERO:
        row = uint64(heap[_ZERO])
        if _update_key(row, tags, starts, loads, rule, owners, keys):
            _sink(heap, _ZERO, size, keys)
            continue
        size -= _ONE
        heap[_ZERO] = heap[size]
        _sink(heap, _ZERO, size, keys)
        first, last = starts[row], starts[row + _ONE]
        best = _best_partition(tags, first, last, rule, turn, owners, carried, shared)
        carried[best] += loads[row]
        _add_owner(tags, first, last, best, owners)
        turn += _ONE
