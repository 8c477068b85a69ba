"""How good a word plan is: where posts go, how evenly, and what that allows (S³-TM, equations 3.1 to 3.6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import types, uint16, uint32, uint64

from tidings.balance.corpus import Corpus
from tidings.jit import inlined, kernel, read, write
from tidings.plan.hot_splits import Versions, version_of
from tidings.text.byte_masks import lowest_bit

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Metrics:
    """`loads` counts the posts routed to each matcher; the rest follows from them."""

    posts: int
    loads: tuple[int, ...]

    @property
    def spread(self) -> float:
        """To how many matchers a post goes, on average (3.2, by the number of posts)."""
        return sum(self.loads) / self.posts if self.posts else 0.0

    @property
    def imbalance(self) -> float:
        """The most loaded matcher against the average (3.4); 1 is perfect, also where there is no load at all."""
        return max(self.loads) / self._mean if any(self.loads) else 1.0

    @property
    def cov(self) -> float:
        """The coefficient of variation of the loads."""
        return float(np.std(self.loads)) / self._mean if any(self.loads) else 0.0

    @property
    def gini(self) -> float:
        """0 when all matchers have the same load, near 1 when one has all."""
        if not any(self.loads):
            return 0.0
        ranked = np.sort(np.array(self.loads, np.float64))
        ranks = 2 * np.arange(1, len(ranked) + 1) - len(ranked) - 1
        return float((ranks * ranked).sum() / (len(ranked) * ranked.sum()))

    @property
    def throughput(self) -> float:
        """Posts all matchers together take while one of them could take one (3.6 with C = 1); the slowest decides."""
        return self.posts / max(self.loads) if any(self.loads) else float("inf")

    @property
    def _mean(self) -> float:
        return sum(self.loads) / len(self.loads)


def measure(corpus: Corpus, versions: Versions, matchers: int) -> Metrics:
    """Route every post by its words: once to each matcher that is responsible for a version drawn for it."""
    loads = np.zeros(matchers, np.uint64)
    seen = np.zeros((matchers + 63) // 64, np.uint64)
    _count(corpus.words, corpus.starts, versions.starts, versions.matchers, seen, loads)
    return Metrics(corpus.size, tuple(loads.tolist()))


@inlined
def _clear(seen, loads):  # type: ignore[no-untyped-def]
    """Add one to the load of every matcher seen, and forget them."""
    for word in range(uint64(seen.size)):
        left = seen[word]
        while left != 0:
            loads[word * uint64(64) + lowest_bit(left)] += _ONE
            left &= left - _ONE
        seen[word] = uint64(0)


@kernel(types.void, read(uint32), read(uint64), read(uint64), read(uint16), write(uint64), write(uint64))
def _count(words, starts, version_starts, matchers, seen, loads):  # type: ignore[no-untyped-def]
    for post in range(uint64(starts.size - 1)):
        for at in range(starts[post], starts[post + _ONE]):
            word = uint64(words[at])
            first = version_starts[word]
            matcher = uint64(matchers[first + version_of(post, word, version_starts[word + _ONE] - first)])
            seen[matcher >> uint64(6)] |= _ONE << (matcher & uint64(63))
        _clear(seen, loads)
