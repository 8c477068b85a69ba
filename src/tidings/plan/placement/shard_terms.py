"""The subscription word map of S³-TM: which words the subscriptions of each matcher ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Held:
    """For every term, the matchers that hold it, as bits; terms beyond the table are held by nobody."""

    matchers: int
    bits: NDArray[np.uint64]

    @classmethod
    def nothing(cls, matchers: int) -> Held:
        return cls(matchers, np.zeros((0, (matchers + 63) // 64), np.uint64))

    @classmethod
    def of(cls, words: Iterable[tuple[int, NDArray[np.uint32]]], terms: int, matchers: int) -> Held:
        """From (matcher, some of its words) as often as there are."""
        bits = np.zeros((terms + 1, (matchers + 63) // 64), np.uint64)
        for matcher, held in words:
            bits[held, matcher // 64] |= np.uint64(1 << (matcher % 64))
        return cls(matchers, bits)

    def grown(self, terms: int) -> NDArray[np.uint64]:
        """A copy with room for so many terms."""
        bits = np.zeros((max(terms + 1, len(self.bits)), self.bits.shape[1]), np.uint64)
        bits[: len(self.bits)] = self.bits
        return bits

    def counts(self) -> NDArray[np.int64]:
        """How many words each matcher holds."""
        found = np.zeros(self.matchers, np.int64)
        for matcher in range(self.matchers):
            found[matcher] = np.count_nonzero(self.bits[:, matcher // 64] & np.uint64(1 << (matcher % 64)))
        return found


Ask = Callable[[], Held]  # looking at all that is held costs more than one change does, so only LASP asks
