"""Find the hot terms of a corpus and replace each by its splits (S³-TM 5.1)."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus, build_unnamed_corpus
from tidings.jit import kernel, read, write
from tidings.plan.hot_splits import split_counts, split_of

MIN_POSTS_PER_SPLIT = 10  # that the sample must have: of fewer posts, the frequency of a term is a guess
_ONE = np.uint64(1)


def count_splits(posts: NDArray[np.int64], loads: NDArray[np.int64], matchers: int) -> NDArray[np.int64]:
    """Return the number of splits per term: none has more than half the load of a matcher, if enough posts have it."""
    return np.maximum(1, np.minimum(split_counts(loads, matchers), posts // MIN_POSTS_PER_SPLIT))


def split_hot_terms(corpus: Corpus, counts: NDArray[np.int64]) -> tuple[Corpus, NDArray[np.uint64]]:
    """Return the corpus with terms replaced by splits, and where the splits of each term start.

    Splits are ordered by term, so unlike terms they are not in descending order of frequency.
    """
    split_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    splits = np.empty_like(corpus.post_terms)
    _replace_terms(corpus.post_terms, corpus.post_starts, split_starts, splits)
    return build_unnamed_corpus(splits, corpus.post_starts, int(split_starts[-1])), split_starts


@kernel(types.void, read(uint32), read(uint64), read(uint64), write(uint32))
def _replace_terms(terms, starts, split_starts, splits):  # type: ignore[no-untyped-def]
    for post in range(uint64(starts.size - 1)):
        for at in range(starts[post], starts[post + _ONE]):
            term = uint64(terms[at])
            first = split_starts[term]
            splits[at] = uint32(first + split_of(post, term, split_starts[term + _ONE] - first))
