"""Registry of the word partitioners, which learn a word plan from a sample of posts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.metis_cut import gc, gfc, gfcl, gnfcl
from tidings.balance.salb import salb, salb_plus
from tidings.balance.split_corpus import count_splits, split_hot_terms
from tidings.errors import InputError
from tidings.plan.hot_splits import HotSplits
from tidings.plan.words import HashPlan, LearnedPlan, WordPlan, check_matcher_count, hash_to_matchers
from tidings.text.vocabulary import Vocabulary

DEFAULT_PARTITIONER = "salb+"
Algorithm = Callable[[Corpus, int], NDArray[np.uint16]]  # → the matcher of every term

WORD_ALGORITHMS: Mapping[str, Algorithm] = {
    "salb+": salb_plus,
    "salb": salb,
    "gc": gc,
    "gfc": gfc,
    "gfcl": gfcl,
    "gnfcl": gnfcl,
}
WORD_PARTITIONERS = ("hash", *WORD_ALGORITHMS)


def fit_word_plan(name: str, corpus: Corpus, matchers: int, split_hot: bool = True, seed: int = 0) -> WordPlan:
    """Fit a plan by the name of its algorithm. With `split_hot`, hot terms get several splits."""
    check_partitioner(name)
    check_matcher_count(matchers)
    if name == "hash":
        return _hash_terms(corpus, matchers, seed) if split_hot else HashPlan(matchers)
    assign = WORD_ALGORITHMS[name]
    if split_hot:
        split_corpus, starts = split_hot_terms(corpus, count_splits(corpus.frequency, corpus.frequency, matchers))
        splits = HotSplits(assign(split_corpus, matchers), starts)
    else:
        splits = HotSplits.unsplit(assign(corpus, matchers))
    return LearnedPlan(name, matchers, seed, corpus.size, Vocabulary.build(corpus.terms), splits)


def _hash_terms(corpus: Corpus, matchers: int, seed: int) -> LearnedPlan:
    """Return a plan of the hot terms: their splits follow the matcher that they are hashed to. Others are hashed."""
    counts = np.minimum(matchers, count_splits(corpus.frequency, corpus.frequency, matchers))
    hot = np.flatnonzero(counts > 1)
    terms, starts = [corpus.terms[number] for number in hot.tolist()], np.cumsum([0, *counts[hot].tolist()])
    nth = np.arange(starts[-1]) - np.repeat(starts[:-1], counts[hot])
    chosen = (np.repeat(hash_to_matchers(terms, matchers), counts[hot]) + nth) % matchers
    splits = HotSplits(chosen.astype(np.uint16), starts.astype(np.uint64))
    return LearnedPlan("hash", matchers, seed, corpus.size, Vocabulary.build(terms), splits)


def check_partitioner(name: str) -> str:
    """Return the name. Raises InputError if there is no such algorithm."""
    if name not in WORD_PARTITIONERS:
        raise InputError(f"partitioner {name!r}: unknown. Choose one of: {', '.join(WORD_PARTITIONERS)}.")
    return name
