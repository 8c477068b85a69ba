"""Learning a word plan from a sample of posts. A new algorithm joins by being listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.metis_cut import gc, gfc, gfcl, gnfcl
from tidings.balance.salb import salb, salb_plus
from tidings.balance.split_corpus import split
from tidings.errors import InputError
from tidings.plan.hot_splits import Versions, version_counts
from tidings.plan.words import HashPlan, LearnedPlan, WordPlan, checked_matchers
from tidings.text.vocabulary import Vocabulary

DEFAULT = "salb+"
Algorithm = Callable[[Corpus, int], NDArray[np.uint16]]  # the matcher of every word of a corpus

LEARNED: Mapping[str, Algorithm] = {
    "salb+": salb_plus,
    "salb": salb,
    "gc": gc,
    "gfc": gfc,
    "gfcl": gfcl,
    "gnfcl": gnfcl,
}
PARTITIONERS = ("hash", *LEARNED)


def fit(name: str, corpus: Corpus, matchers: int, split_hot: bool = True, seed: int = 0) -> WordPlan:
    """A plan by the name of its algorithm, learned from a corpus. With `split_hot`, hot words get several versions."""
    if check_partitioner(name) == "hash":
        return HashPlan(matchers)
    checked_matchers(matchers)
    learn = LEARNED[name]
    if split_hot:
        apart, starts = split(corpus, version_counts(corpus.frequency, matchers))
        versions = Versions(learn(apart, matchers), starts)
    else:
        versions = Versions.whole(learn(corpus, matchers))
    return LearnedPlan(name, matchers, seed, corpus.size, Vocabulary.build(corpus.terms), versions)


def check_partitioner(name: str) -> str:
    """The name itself; InputError when there is no such algorithm."""
    if name not in PARTITIONERS:
        raise InputError(f"There is no partitioner called {name!r}; choose one of: {', '.join(PARTITIONERS)}.")
    return name
