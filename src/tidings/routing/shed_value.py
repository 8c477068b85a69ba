"""How many subscriptions a post is in reach of, lead by lead: what sending it is worth.

A lead tells how many conjunctions it leads to and which companions they ask for, not which asks for which. The more of
the companions a post says, the more of the conjunctions it may satisfy: it is taken to reach as large a share of these.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64

from tidings.jit import inlined, kernel, read, write
from tidings.query.anchors import WORDS, signature_of

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
UNIT = 256  # what one conjunction counts that is surely reached; a signature has as many bits


@inlined
def _ones(bits):  # type: ignore[no-untyped-def]
    """How many bits are set."""
    bits -= (bits >> _ONE) & uint64(0x5555555555555555)
    bits = (bits & uint64(0x3333333333333333)) + ((bits >> uint64(2)) & uint64(0x3333333333333333))
    bits = (bits + (bits >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * uint64(0x0101010101010101)) >> uint64(56)


@kernel(types.void, read(uint32), read(uint32, 2), read(uint32), read(uint64, 2), read(uint32), write(uint64))
def within_reach(terms, bounds, active, companions, counts, worth):  # type: ignore[no-untyped-def]
    """Write what each active lead of each post is worth, at least 1."""
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        said = signature_of(terms, start, end)
        for at in range(start, end):
            term = uint64(active[at])
            if term == 0:
                break
            asked, met = _ZERO, _ZERO
            for word in range(uint64(WORDS)):
                asked += _ones(companions[term, word])
                met += _ones(companions[term, word] & said[word])
            worth[at] = max(_ONE, uint64(counts[term]) * uint64(UNIT) * met // max(_ONE, asked))
