"""From a sample of posts and compiled subscriptions to a space plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_registry import fit_space
from tidings.balance.workload import Workload
from tidings.plan.space import SpacePlan
from tidings.query.conjunctions import Conjunctions
from tidings.text.analyzer import Receiver
from tidings.text.vocabulary import Vocabulary

Located = tuple[pa.Array, NDArray[np.float64]]  # texts of posts, and where they are
LearnSpace = Callable[[Sequence[bytes], Conjunctions], SpacePlan]  # the subscribed words, the subscriptions → a plan
MAX_CONJUNCTIONS = 100_000  # that a plan is learned from; more tell nothing new


def learn_space(name: str, workers: int, sample: Callable[[], Located], seed: int = 0) -> LearnSpace:
    """How to learn a plan once the subscriptions are compiled; the sample is asked for only then."""

    def learn(terms: Sequence[bytes], conjunctions: Conjunctions) -> SpacePlan:
        return fit_space(name, workload_of(terms, conjunctions, sample(), seed), workers)

    return learn


def workload_of(terms: Sequence[bytes], conjunctions: Conjunctions, posts: Located, seed: int = 0) -> Workload:
    """Posts and subscriptions as plans are learned from and judged by; of very many subscriptions a sample."""
    texts, positions = posts
    received = Receiver(Vocabulary.build(terms)).receive(texts)
    scale = max(1.0, len(conjunctions) / MAX_CONJUNCTIONS)
    if len(conjunctions) > MAX_CONJUNCTIONS:
        drawn = np.random.default_rng(seed).choice(len(conjunctions), MAX_CONJUNCTIONS, replace=False)
        conjunctions = conjunctions.select(np.sort(drawn))
    return Workload.of(terms, received, positions, conjunctions, scale)
