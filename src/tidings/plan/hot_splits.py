"""Hot words split into versions (S³-TM 5.1): a word too frequent for one matcher is several, each said by a share of
the posts that say it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from tidings.jit import inlined

_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Versions:
    """The matchers of each word, one for each of its versions: ``matchers[starts[w]:starts[w + 1]]``."""

    matchers: NDArray[np.uint16]
    starts: NDArray[np.uint64]

    @classmethod
    def whole(cls, matcher_of: NDArray[np.uint16]) -> Versions:
        """Every word in one version."""
        return cls(matcher_of, np.arange(len(matcher_of) + 1, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.starts).astype(np.int64)


def version_counts(frequency: NDArray[np.int64], matchers: int) -> NDArray[np.int64]:
    """How many versions each word needs, so that none has more than half of what one matcher should handle."""
    total = int(frequency.sum())
    # ceil(f / (total / 2N)) without rounding errors
    return np.maximum(1, -(-frequency * 2 * matchers // max(1, total)))


@inlined
def version_of(post, word, versions):  # type: ignore[no-untyped-def]
    """Which version of a word a post says: as good as random, and always the same."""
    if versions == 1:
        return uint64(0)
    mixed = (uint64(post) + _ONE) * _MIX + uint64(word)
    return ((mixed ^ (mixed >> uint64(29))) * _MIX >> uint64(32)) % versions
