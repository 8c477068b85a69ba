"""Compare two word plans on held-out posts, which neither was learned from.

The load of a matcher is the number of posts routed to it plus the work of its anchors, in units of posts. Plans are
compared by the largest load. How far the gain is due to the choice of the posts is estimated by resampling them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import float64, types, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import analyze_texts, concat_batches
from tidings.balance.salb_work_aware import SubscriptionSample, build_anchor_corpus, fit_texts, mark_anchors
from tidings.jit import kernel, read, write
from tidings.plan.hot_splits import split_of
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.text.byte_masks import lowest_bit
from tidings.text.vocabulary import Vocabulary

MIN_GAIN = 1.1  # of a plan that replaces a learned one: placing all subscriptions again must be worth it
_HELD_OUT = 3  # one of three posts is held out
_GROUPS = 20
_RESAMPLES = 1_000
_QUANTILE = 0.005
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class PlanComparison:
    """`gain` is the largest load of the old plan divided by that of the new one; `low_gain` is its lower bound."""

    gain: float
    low_gain: float
    posts: int  # held out

    def confirms(self, min_gain: float) -> bool:
        """Return whether the new plan is better by enough, and not by chance."""
        return self.gain >= min_gain and self.low_gain > 1.0

    def to_dict(self) -> dict[str, float]:
        return {"gain": round(self.gain, 3), "low_gain": round(self.low_gain, 3), "posts": self.posts}


def learn_and_compare(
    name: str, texts: pa.Array, terms: Sequence[bytes], conjunctions: Conjunctions, old: WordPlan
) -> tuple[WordPlan, PlanComparison]:
    """Fit a plan to two thirds of the posts and compare it with the old one on the others."""
    is_held_out = hold_out(len(texts))
    plan = fit_texts(name, texts.filter(pa.array(~is_held_out)), terms, conjunctions, old.matchers)
    held_out = concat_batches(analyze_texts(texts.filter(pa.array(is_held_out)), Vocabulary.build(terms)))
    return plan, compare_plans(SubscriptionSample.build(terms, conjunctions, held_out), old, plan)


def hold_out(posts: int) -> NDArray[np.bool_]:
    """Return which posts are held out: a third of them, at random, but always the same ones."""
    drawn: NDArray[np.bool_] = np.random.default_rng(0).permutation(posts) % _HELD_OUT == 0
    return drawn


def compare_plans(held_out: SubscriptionSample, old: WordPlan, new: WordPlan, seed: int = 0) -> PlanComparison:
    """Compare two plans on held-out posts."""
    loads = estimate_loads(held_out, (old, new))
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(_GROUPS, [1 / _GROUPS] * _GROUPS, _RESAMPLES)
    gains = _gain(*(weights @ of_plan for of_plan in loads))
    gain = _gain(*(of_plan.sum(axis=0) for of_plan in loads))
    return PlanComparison(float(gain), float(np.quantile(gains, _QUANTILE)), len(held_out.posts))


def estimate_loads(sample: SubscriptionSample, plans: Sequence[WordPlan]) -> list[NDArray[np.float64]]:
    """Return for each plan the load per group of posts and matcher."""
    measured, loads = sample.measure_work(), []
    for plan in plans:
        anchors, is_anchor = mark_anchors(sample, plan.splits_of(sample.terms).counts > 1)
        work = measured.sum_by_anchor(anchors) / np.maximum(1, measured.posts)
        corpus = build_anchor_corpus(sample, is_anchor)
        splits = plan.splits_of(corpus.terms)
        work_per_post = work[Vocabulary.build(sample.terms).find_ids(corpus.terms)]
        of_plan, seen = np.zeros((_GROUPS, plan.matchers)), np.zeros((plan.matchers + 63) // 64, np.uint64)
        texts = (corpus.post_terms, corpus.post_starts)
        _add_loads(*texts, splits.starts, splits.matchers, work_per_post, seen, of_plan)
        loads.append(of_plan)
    return loads


def _gain(old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    largest: NDArray[np.float64] = np.maximum(1.0, old.max(axis=-1)) / np.maximum(1.0, new.max(axis=-1))
    return largest


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint64),
    read(uint16),
    read(float64),
    write(uint64),
    write(float64, 2),
)
def _add_loads(terms, starts, split_starts, matchers, work, seen, loads):  # type: ignore[no-untyped-def]
    """Add 1 per post and matcher, and the work of its terms there. The group of a post is pseudo-random."""
    for post in range(uint64(starts.size - 1)):
        group = ((post + _ONE) * _MIX >> uint64(32)) % uint64(loads.shape[0])
        for at in range(starts[post], starts[post + _ONE]):
            term = uint64(terms[at])
            first = split_starts[term]
            matcher = uint64(matchers[first + split_of(post, term, split_starts[term + _ONE] - first)])
            seen[matcher >> uint64(6)] |= _ONE << (matcher & uint64(63))
            loads[group, matcher] += work[term]
        for number in range(uint64(seen.size)):
            left = seen[number]
            while left != 0:
                loads[group, number * uint64(64) + lowest_bit(left)] += 1.0
                left &= left - _ONE
            seen[number] = uint64(0)
