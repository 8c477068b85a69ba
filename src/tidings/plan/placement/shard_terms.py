"""The subscription word map of S³-TM: which terms the subscriptions of each matcher contain.

A process that places subscriptions one after another keeps the map from version to version and only changes what
changed. Terms of removed subscriptions stay until their segment is merged: until then it still has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write

_ONE = np.uint64(1)


class ShardTerms:
    """For every term, the matchers that have it, as bits (`bits`), and the number of terms per matcher (`sizes`)."""

    def __init__(self, matchers: int, terms: int) -> None:
        self.bits = np.zeros((terms + 1, (matchers + 63) // 64), np.uint64)
        self.sizes = np.zeros(matchers, np.int64)

    @classmethod
    def empty(cls, matchers: int) -> ShardTerms:
        return cls(matchers, 0)

    @classmethod
    def of(cls, shard_terms: Iterable[tuple[int, NDArray[np.uint32]]], term_count: int, matchers: int) -> ShardTerms:
        """Return the map of (matcher, some of its terms) pairs; a matcher may occur several times."""
        result = cls(matchers, term_count)
        for matcher, terms in shard_terms:
            result.add(matcher, terms)
        return result

    def reserve(self, terms: int) -> None:
        """Make room for terms up to this number; room doubles, so that few calls copy the map."""
        if terms >= len(self.bits):
            grown = np.zeros((max(terms + 1, 2 * len(self.bits)), self.bits.shape[1]), np.uint64)
            grown[: len(self.bits)] = self.bits
            self.bits = grown

    def add(self, matcher: int, terms: NDArray[np.uint32]) -> None:
        """Add terms to a matcher that may have some of them."""
        self.reserve(int(terms.max(initial=0)))
        self.sizes[matcher] += _add(terms, np.uint64(matcher), self.bits)

    def remove(self, matcher: int, terms: NDArray[np.uint32]) -> None:
        """Remove terms that a matcher has, each once."""
        self.bits[terms, matcher // 64] &= ~np.uint64(1 << (matcher % 64))
        self.sizes[matcher] -= len(terms)

    def terms_of(self, matcher: int) -> NDArray[np.uint32]:
        """Return the terms of a matcher, ascending."""
        return np.flatnonzero(self.bits[:, matcher // 64] & np.uint64(1 << (matcher % 64))).astype(np.uint32)


@kernel(int64, read(uint32), uint64, write(uint64, 2))
def _add(terms, matcher, bits):  # type: ignore[no-untyped-def]
    """Set the bit of a matcher for these terms; return how many were not set."""
    added, word, bit = int64(0), matcher >> uint64(6), _ONE << (matcher & uint64(63))
    for at in range(uint64(terms.size)):
        term = uint64(terms[at])
        added += int64(bits[term, word] & bit == 0)
        bits[term, word] |= bit
    return added


ReadShardTerms = Callable[[], ShardTerms]  # building the map costs more than a small change, and only LASP needs it
