"""Sightings: how often a set of tags came that no calculator owns whole."""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64

from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.partition.tagset_trie import child
from tidings.jit import inlined, kernel, read, write

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inlined
def sighted(tags, first, last, owners, table, parents, set_tags, state, subset, seen, wanted):  # type: ignore[no-untyped-def]
    """Count every set of these tags that nobody owns whole; the largest that was seen often enough, as bits, or 0.

    Of several the last in the order of their bits is taken: no set comes before those it contains.
    """
    subset[_ZERO] = _ZERO
    found = _ZERO
    for number in range(last - first):
        tag = tags[first + number]
        base = _ONE << number
        for smaller in range(base):
            node = child(table, parents, set_tags, state, subset[smaller], tag)
            mask = base + smaller
            subset[mask] = node
            whole = ~_ZERO
            for place in range(number + _ONE):
                if (mask >> place) & _ONE != _ZERO:
                    whole &= owners[uint64(tags[first + place])]
            if whole == _ZERO:
                seen[node] += uint32(1)
                if int64(seen[node]) >= wanted:
                    found = uint64(mask)
    return found


@kernel(
    int64,
    read(uint32),
    read(uint64),
    uint64,
    uint64,
    read(uint64),
    write(uint64),
    write(uint32),
    write(uint32),
    write(uint64),
    write(uint64),
    write(uint32),
)
def sight_again(tags, starts, post, until, owners, table, parents, set_tags, state, subset, seen):  # type: ignore[no-untyped-def]
    """Count the sightings of posts that came before; the post to go on with when the table must grow."""
    set_room = uint64(parents.size) - uint64(1 << MAX_TAGS)
    while post < until and state[_ZERO] <= set_room:
        first, last = starts[post], starts[post + _ONE]
        whole = ~_ZERO
        for at in range(first, last):
            whole &= owners[uint64(tags[at])]
        if whole == _ZERO:
            sighted(tags, first, last, owners, table, parents, set_tags, state, subset, seen, int64(1))
        post += _ONE
    return int64(post)
