"""Plans compared on held-out posts: by definition, and over many streams that change or do not."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.balance.test_salb_work_aware import build_sample, list_conjunctions, posts, queries
from tests.data import real_queries, real_tweets

from tidings.balance.plan_comparison import MIN_GAIN, compare_plans, estimate_loads, learn_and_compare
from tidings.balance.salb_work_aware import fit_texts, fit_work_aware
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.plan.words import HashPlan
from tidings.query.anchors import anchor_terms

WORDS, TOPICS, POSTS, SEEDS = 300, 30, 3_000, 50


@settings(max_examples=100, deadline=None)
@given(posts, queries, st.integers(1, 5))
def test_loads_equal_the_definition(texts, query_texts, matchers):
    """A post is one unit on each matcher of its anchors, plus the work of the anchors; no term has splits."""
    sample, plan = build_sample(texts, query_texts), HashPlan(matchers)
    matcher_of = dict(enumerate(plan.splits_of(sample.terms).matchers.tolist(), 1))
    anchors = anchor_terms(sample.conjunctions).tolist()
    distinct = set(zip(anchors, list_conjunctions(sample), strict=True))
    containing = [
        {number for number, term in enumerate(sample.terms, 1) if term.decode() in post.split()} for post in texts
    ]
    expected = np.zeros(matchers)
    for post in containing:
        for matcher in {matcher_of[anchor] for anchor in anchors if anchor in post}:
            expected[matcher] += 1
        for anchor, _ in distinct:
            expected[matcher_of[anchor]] += 0.15 * (anchor in post)
        for anchor, conjunction in zip(anchors, list_conjunctions(sample), strict=True):
            expected[matcher_of[anchor]] += 0.15 * (conjunction <= post)
    (loads,) = estimate_loads(sample, [plan])
    assert loads.sum(axis=0) == pytest.approx(expected)


def test_the_work_of_a_hot_term_is_divided_among_its_splits():
    texts = ["storm"] * 400 + ["storm flood", "coffee"] * 20
    sample = build_sample(texts, ["storm", "flood", *["coffee"] * 3])
    plan = fit_work_aware(sample, 4)
    assert plan.splits_of([b"storm"]).counts[0] > 2
    (loads,) = estimate_loads(sample, [plan])
    assert loads.sum() == pytest.approx(1.3 * 440 + 1.6 * 20, rel=0.05), "a post is on one of the splits"
    assert loads.sum(axis=0).max() < 200


def test_a_plan_is_not_better_than_itself():
    sample = build_sample(["storm flood", "coffee"] * 50, ["storm", "flood", "coffee"])
    found = compare_plans(sample, HashPlan(3), HashPlan(3))
    assert (found.gain, found.low_gain, found.posts) == (1.0, 1.0, 100)
    assert not found.confirms(1.0)
    nothing = compare_plans(build_sample([""], ["storm"]), HashPlan(3), HashPlan(3))
    assert not nothing.confirms(1.0)


class Stream:
    """Posts of a few words of a topic and some others; words and topics differ in frequency."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        vocabulary = GrowingVocabulary()
        queries = [f"word{number}" for number in range(WORDS)]
        queries += [f"word{a} word{b}" for a, b in self._rng.integers(0, WORDS, (200, 2))]
        table = pa.table({"id": np.arange(len(queries)), "query": pa.array(queries)})
        self.conjunctions = compile_subscriptions(table, vocabulary).conjunctions
        self.terms = vocabulary.added.terms()
        self.shuffle()

    def shuffle(self) -> None:
        """Change which words belong together."""
        self._topics = self._rng.permutation(WORDS).reshape(TOPICS, -1)

    def posts(self) -> pa.Array:
        weights = 1 / np.arange(1, TOPICS + 1)
        topics = self._topics[self._rng.choice(TOPICS, POSTS, p=weights / weights.sum())]
        own = [self._rng.choice(row, 3, replace=False) for row in topics]
        others = self._rng.integers(0, WORDS, POSTS)
        return pa.array([" ".join(f"word{n}" for n in [*row, other]) for row, other in zip(own, others, strict=True)])

    def learn(self, matchers: int):
        return fit_texts("salb+", self.posts(), self.terms, self.conjunctions, matchers)

    def compare(self, old):
        return learn_and_compare("salb+", self.posts(), self.terms, self.conjunctions, old)[1]


@pytest.mark.parametrize("matchers", [4, 16])
def test_a_stationary_stream_keeps_its_plan_and_a_drifting_one_does_not(matchers):
    replaced = [0, 0, 0]
    for seed in range(SEEDS):
        stream = Stream(seed)
        old = stream.learn(matchers)
        replaced[0] += stream.compare(old).confirms(MIN_GAIN)
        replaced[1] += stream.compare(HashPlan(matchers)).confirms(1.0)
        stream.shuffle()
        replaced[2] += stream.compare(old).confirms(MIN_GAIN)
    assert replaced[0] == 0, "the same posts"
    assert replaced[1:] == [SEEDS, SEEDS], "a first plan, and a plan for other posts"


def test_few_held_out_posts_confirm_nothing():
    """A better plan by chance: with 60 posts, each third of them held out."""
    stream, found = Stream(0), []
    old = stream.learn(8)
    for _ in range(SEEDS):
        texts = stream.posts()
        _, comparison = learn_and_compare("salb+", texts.slice(0, 60), stream.terms, stream.conjunctions, old)
        found.append(comparison.confirms(MIN_GAIN))
    assert not any(found)


def test_the_comparison_is_deterministic():
    pairs = [(stream, stream.learn(4)) for stream in (Stream(1), Stream(1))]
    first, second = (stream.compare(old) for stream, old in pairs)
    assert first == second
    assert first.to_dict().keys() == {"gain", "low_gain", "posts"}


@pytest.mark.real_data
def test_real_tweets_of_the_same_time_keep_a_plan():
    texts, queries = pa.array(real_tweets(40_000)), real_queries(10_000)
    vocabulary = GrowingVocabulary()
    table = pa.table({"id": np.arange(len(queries)), "query": pa.array(queries)})
    conjunctions = compile_subscriptions(table, vocabulary).conjunctions
    terms = vocabulary.added.terms()
    for matchers, seed in itertools.product((8, 64), range(3)):
        order = np.random.default_rng(seed).permutation(len(texts))
        half = len(order) // 2
        old = fit_texts("salb+", texts.take(pa.array(order[:half])), terms, conjunctions, matchers)
        recent = texts.take(pa.array(order[half:]))
        assert not learn_and_compare("salb+", recent, terms, conjunctions, old)[1].confirms(MIN_GAIN)
        assert learn_and_compare("salb+", recent, terms, conjunctions, HashPlan(matchers))[1].confirms(MIN_GAIN)
