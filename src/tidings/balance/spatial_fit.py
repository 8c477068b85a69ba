"""Fit a spatial plan to a sample of posts and compiled subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_registry import fit_spatial_plan
from tidings.balance.workload import Workload
from tidings.plan.space import SpatialPlan
from tidings.query.conjunctions import Conjunctions
from tidings.text.analyzer import Analyzer
from tidings.text.vocabulary import Vocabulary

PostSample = tuple[pa.Array, NDArray[np.float64]]  # texts and positions of posts
SpatialFitter = Callable[[Sequence[bytes], Conjunctions], SpatialPlan]  # subscribed terms, subscriptions → plan
MAX_CONJUNCTIONS = 100_000  # that a plan is learned from; more do not change it noticeably


def spatial_fitter(name: str, matchers: int, sample: Callable[[], PostSample], seed: int = 0) -> SpatialFitter:
    """Return a function that fits a plan to compiled subscriptions; it calls `sample` for the posts."""

    def fit(terms: Sequence[bytes], conjunctions: Conjunctions) -> SpatialPlan:
        return fit_spatial_plan(name, build_workload(terms, conjunctions, sample(), seed), matchers)

    return fit


def build_workload(terms: Sequence[bytes], conjunctions: Conjunctions, posts: PostSample, seed: int = 0) -> Workload:
    """Build the workload to learn or evaluate a plan with. Above `MAX_CONJUNCTIONS`, conjunctions are sampled."""
    texts, positions = posts
    analyzed = Analyzer(Vocabulary.build(terms)).analyze(texts)
    scale = max(1.0, len(conjunctions) / MAX_CONJUNCTIONS)
    if len(conjunctions) > MAX_CONJUNCTIONS:
        rows = np.random.default_rng(seed).choice(len(conjunctions), MAX_CONJUNCTIONS, replace=False)
        conjunctions = conjunctions.select(np.sort(rows))
    return Workload.build(terms, analyzed, positions, conjunctions, scale)
