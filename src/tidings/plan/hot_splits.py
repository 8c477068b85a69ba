"""Splits of hot terms (S³-TM 5.1): a term too frequent for one matcher has several, each for a part of its posts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from tidings.jit import inline

_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class HotSplits:
    """The matchers of each term, one per split: ``matchers[starts[t]:starts[t + 1]]``."""

    matchers: NDArray[np.uint16]
    starts: NDArray[np.uint64]

    @classmethod
    def unsplit(cls, matcher_of: NDArray[np.uint16]) -> HotSplits:
        """Return one split for every term."""
        return cls(matcher_of, np.arange(len(matcher_of) + 1, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.starts).astype(np.int64)


def split_counts(frequency: NDArray[np.int64], matchers: int) -> NDArray[np.int64]:
    """Return the number of splits per term, so that none exceeds half the load of a matcher."""
    total = int(frequency.sum())
    # ceil(f / (total / 2N)) without rounding errors
    return np.maximum(1, -(-frequency * 2 * matchers // max(1, total)))


@inline
def split_of(key, term, splits):  # type: ignore[no-untyped-def]
    """Return the split of a term for a post: pseudo-random, but always the same for equal keys.

    The key stands for the content of the post: the router uses a hash, learners the number of the post in a corpus.
    """
    if splits == 1:
        return uint64(0)
    mixed = (uint64(key) + _ONE) * _MIX + uint64(term)
    return ((mixed ^ (mixed >> uint64(29))) * _MIX >> uint64(32)) % splits
