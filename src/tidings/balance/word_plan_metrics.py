"""Quality of a word plan: spread, balance and throughput (S³-TM, equations 3.1 to 3.6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import types, uint16, uint32, uint64

from tidings.balance.corpus import Corpus
from tidings.jit import inline, kernel, read, write
from tidings.plan.hot_splits import HotSplits, split_of
from tidings.text.byte_masks import lowest_bit

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class WordPlanMetrics:
    """`loads` is the number of posts routed to each matcher. The other metrics are derived from it."""

    posts: int
    loads: tuple[int, ...]

    @property
    def spread(self) -> float:
        """Return the mean number of matchers that a post is routed to (3.2, by the number of posts)."""
        return sum(self.loads) / self.posts if self.posts else 0.0

    @property
    def imbalance(self) -> float:
        """Return the largest load divided by the mean (3.4); 1 is perfect, and the value without any load."""
        return max(self.loads) / self._mean if any(self.loads) else 1.0

    @property
    def cov(self) -> float:
        """Return the coefficient of variation of the loads."""
        return float(np.std(self.loads)) / self._mean if any(self.loads) else 0.0

    @property
    def gini(self) -> float:
        """Return 0 if all matchers have the same load, near 1 if one matcher has all of it."""
        if not any(self.loads):
            return 0.0
        ranked = np.sort(np.array(self.loads, np.float64))
        ranks = 2 * np.arange(1, len(ranked) + 1) - len(ranked) - 1
        return float((ranks * ranked).sum() / (len(ranked) * ranked.sum()))

    @property
    def throughput(self) -> float:
        """Return the posts per unit of time if a matcher processes one (3.6 with C = 1); the slowest one decides."""
        return self.posts / max(self.loads) if any(self.loads) else float("inf")

    @property
    def _mean(self) -> float:
        return sum(self.loads) / len(self.loads)


def measure_word_plan(corpus: Corpus, splits: HotSplits, matchers: int) -> WordPlanMetrics:
    """Route every post by its terms, at most once to each matcher, and return the metrics."""
    loads = np.zeros(matchers, np.uint64)
    seen = np.zeros((matchers + 63) // 64, np.uint64)
    _count_loads(corpus.post_terms, corpus.post_starts, splits.starts, splits.matchers, seen, loads)
    return WordPlanMetrics(corpus.size, tuple(loads.tolist()))


@inline
def _add_seen(seen, loads):  # type: ignore[no-untyped-def]
    """Add 1 to the load of every matcher in the bitmap `seen`, and clear the bitmap."""
    for number in range(uint64(seen.size)):
        left = seen[number]
        while left != 0:
            loads[number * uint64(64) + lowest_bit(left)] += _ONE
            left &= left - _ONE
        seen[number] = uint64(0)


@kernel(types.void, read(uint32), read(uint64), read(uint64), read(uint16), write(uint64), write(uint64))
def _count_loads(terms, starts, split_starts, matchers, seen, loads):  # type: ignore[no-untyped-def]
    for post in range(uint64(starts.size - 1)):
        for at in range(starts[post], starts[post + _ONE]):
            term = uint64(terms[at])
            first = split_starts[term]
            matcher = uint64(matchers[first + split_of(post, term, split_starts[term + _ONE] - first)])
            seen[matcher >> uint64(6)] |= _ONE << (matcher & uint64(63))
        _add_seen(seen, loads)
