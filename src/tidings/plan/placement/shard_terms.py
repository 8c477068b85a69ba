"""The subscription word map of S³-TM: which terms the subscriptions of each matcher contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ShardTerms:
    """For every term, the matchers that have it, as bits; no matcher has a term beyond the table."""

    matchers: int
    bits: NDArray[np.uint64]

    @classmethod
    def empty(cls, matchers: int) -> ShardTerms:
        return cls(matchers, np.zeros((0, (matchers + 63) // 64), np.uint64))

    @classmethod
    def of(cls, shard_terms: Iterable[tuple[int, NDArray[np.uint32]]], term_count: int, matchers: int) -> ShardTerms:
        """Return the table of (matcher, some of its terms) pairs; a matcher may occur several times."""
        bits = np.zeros((term_count + 1, (matchers + 63) // 64), np.uint64)
        for matcher, terms in shard_terms:
            bits[terms, matcher // 64] |= np.uint64(1 << (matcher % 64))
        return cls(matchers, bits)

    def copy_bits(self, term_count: int) -> NDArray[np.uint64]:
        """Return a copy of the table, enlarged to at least `term_count` terms."""
        bits = np.zeros((max(term_count + 1, len(self.bits)), self.bits.shape[1]), np.uint64)
        bits[: len(self.bits)] = self.bits
        return bits

    def count_terms(self) -> NDArray[np.int64]:
        """Return the number of terms per matcher."""
        counts = np.zeros(self.matchers, np.int64)
        for matcher in range(self.matchers):
            counts[matcher] = np.count_nonzero(self.bits[:, matcher // 64] & np.uint64(1 << (matcher % 64)))
        return counts


ReadShardTerms = Callable[[], ShardTerms]  # reading the table costs more than a small change, and only LASP needs it
