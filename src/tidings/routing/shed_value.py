"""Estimate how probably a conjunction of an anchor matches a post: the value of sending it.

An anchor has the number of its conjunctions and the union of their companion terms, but not which belongs to which. The
estimate assumes that a post with some fraction of the companions may satisfy the same fraction of the conjunctions.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64

from tidings.jit import inline, kernel, read, write
from tidings.query.anchors import SIGNATURE_WORDS, post_signature

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
UNIT = 1 << 16  # value of one conjunction whose companions are all in the post


@inline
def _popcount(bits):  # type: ignore[no-untyped-def]
    """Return the number of set bits."""
    bits -= (bits >> _ONE) & uint64(0x5555555555555555)
    bits = (bits & uint64(0x3333333333333333)) + ((bits >> uint64(2)) & uint64(0x3333333333333333))
    bits = (bits + (bits >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * uint64(0x0101010101010101)) >> uint64(56)


@kernel(types.void, read(uint32), read(uint32, 2), read(uint32), read(uint64, 2), write(uint64))
def match_potential(terms, bounds, active, companions, worth):  # type: ignore[no-untyped-def]
    """Write the value of one conjunction of each active anchor of each post, at least 1."""
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        signature = post_signature(terms, start, end)
        for at in range(start, end):
            term = uint64(active[at])
            if term == 0:
                break
            companion_bits, common_bits = _ZERO, _ZERO
            for word in range(uint64(SIGNATURE_WORDS)):
                companion_bits += _popcount(companions[term, word])
                common_bits += _popcount(companions[term, word] & signature[word])
            worth[at] = max(_ONE, uint64(UNIT) * common_bits // max(_ONE, companion_bits))
