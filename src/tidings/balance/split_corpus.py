"""A corpus in which each hot word is replaced by its splits (S³-TM 5.1)."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus, inverted
from tidings.jit import kernel, read, write
from tidings.plan.hot_splits import version_of

_ONE = np.uint64(1)


def split(corpus: Corpus, counts: NDArray[np.int64]) -> tuple[Corpus, NDArray[np.uint64]]:
    """The corpus with each hot word replaced by a version, and where the versions of each word start.

    Versions are ordered by word, so a most frequent one need not be first.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    words = np.empty_like(corpus.words)
    _replace(corpus.words, corpus.starts, starts, words)
    return inverted(words, corpus.starts, int(starts[-1])), starts


@kernel(types.void, read(uint32), read(uint64), read(uint64), write(uint32))
def _replace(words, starts, version_starts, versions):  # type: ignore[no-untyped-def]
    for post in range(uint64(starts.size - 1)):
        for at in range(starts[post], starts[post + _ONE]):
            word = uint64(words[at])
            first = version_starts[word]
            versions[at] = uint32(first + version_of(post, word, version_starts[word + _ONE] - first))
