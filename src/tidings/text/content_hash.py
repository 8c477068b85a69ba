"""Hash the content of posts: for choices that must be the same for equal posts, wherever and in which batch they are.

Speed counts more than quality here: eight bytes are one step.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64

from tidings.jit import inline, kernel, read, write
from tidings.text.byte_masks import eight_bytes

_EIGHT = np.uint64(8)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@inline
def _mix(value, word):  # type: ignore[no-untyped-def]
    value = (value ^ word) * _MIX
    return value ^ (value >> uint64(32))


@kernel(types.void, read(uint8), read(uint64), write(uint64))
def hash_texts(data, offsets, hashes):  # type: ignore[no-untyped-def]
    """Write a hash of each text; the last eight bytes of a text may overlap the ones before."""
    for row in range(uint64(hashes.size)):
        start, end = offsets[row], offsets[row + _ONE]
        value = end - start
        if end - start >= _EIGHT:
            for at in range(start, end - _EIGHT, _EIGHT):
                value = _mix(value, eight_bytes(data, uint64(at)))
            value = _mix(value, eight_bytes(data, end - _EIGHT))
        else:
            for at in range(start, end):
                value = _mix(value, uint64(data[at]))
        hashes[row] = value


@kernel(types.void, read(uint32), read(uint32, 2), write(uint64))
def hash_term_lists(terms, bounds, hashes):  # type: ignore[no-untyped-def]
    """Write a hash of the terms of each post."""
    for row in range(uint64(bounds.shape[0])):
        value = uint64(bounds[row, _ONE] - bounds[row, uint64(0)])
        for at in range(uint64(bounds[row, uint64(0)]), uint64(bounds[row, _ONE])):
            value = _mix(value, uint64(terms[at]))
        hashes[row] = value
