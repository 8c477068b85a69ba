"""Count sightings: posts that contain a tag set that no calculator owns completely."""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64

from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.partition.tagset_trie import find_or_add
from tidings.jit import inline, kernel, read, write

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inline
def count_sightings(tags, first, last, owners, table, parents, set_tags, state, subset, seen, min_sightings):  # type: ignore[no-untyped-def]
    """Count every subset of these tags without a common owner. Return one seen often enough, as bits, or 0.

    The last one in the order of the bits is returned: every set comes after its subsets.
    """
    subset[_ZERO] = _ZERO
    found = _ZERO
    for number in range(last - first):
        tag = tags[first + number]
        base = _ONE << number
        for smaller in range(base):
            node = find_or_add(table, parents, set_tags, state, subset[smaller], tag)
            mask = base + smaller
            subset[mask] = node
            whole = ~_ZERO
            for place in range(number + _ONE):
                if (mask >> place) & _ONE != _ZERO:
                    whole &= owners[uint64(tags[first + place])]
            if whole == _ZERO:
                seen[node] += uint32(1)
                if int64(seen[node]) >= min_sightings:
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
def recount_sightings(tags, starts, post, until, owners, table, parents, set_tags, state, subset, seen):  # type: ignore[no-untyped-def]
    """Count the sightings of earlier posts until the table must grow. Return the next post."""
    set_room = uint64(parents.size) - uint64(1 << MAX_TAGS)
    while post < until and state[_ZERO] <= set_room:
        first, last = starts[post], starts[post + _ONE]
        whole = ~_ZERO
        for at in range(first, last):
            whole &= owners[uint64(tags[at])]
        if whole == _ZERO:
            count_sightings(tags, first, last, owners, table, parents, set_tags, state, subset, seen, int64(1))
        post += _ONE
    return int64(post)
