"""`salb+` with subscriptions: the work of terms by definition, and their assignment."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.corpus import Corpus, analyze_texts, concat_batches
from tidings.balance.salb import salb_plus
from tidings.balance.salb_work_aware import SubscriptionSample, fit_texts, fit_work_aware
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.query.anchors import anchor_terms
from tidings.text.vocabulary import Vocabulary

words = st.sampled_from([f"w{number}" for number in range(7)])
posts = st.lists(st.lists(words, max_size=5).map(" ".join), min_size=1, max_size=12)
queries = st.lists(st.lists(words, min_size=1, max_size=3, unique=True).map(" ".join), min_size=1, max_size=8)
WEIGHT = 4.0


def build_sample(texts: list[str], query_texts: list[str]) -> SubscriptionSample:
    vocabulary = GrowingVocabulary()
    table = pa.table({"id": np.arange(len(query_texts)), "query": pa.array(query_texts, pa.string())})
    conjunctions = compile_subscriptions(table, vocabulary).conjunctions
    terms = vocabulary.added.terms()
    received = concat_batches(analyze_texts(pa.array(texts, pa.string()), Vocabulary.build(terms)))
    return SubscriptionSample.build(terms, conjunctions, received)


def list_conjunctions(sample: SubscriptionSample) -> list[frozenset[int]]:
    bounds = itertools.pairwise(sample.conjunctions.starts.astype(int).tolist())
    return [frozenset(sample.conjunctions.terms[a:b].tolist()) for a, b in bounds]


@settings(max_examples=100, deadline=None)
@given(posts, queries)
def test_work_of_terms_equals_the_definition(texts, query_texts):
    sample = build_sample(texts, query_texts)
    conjunctions = list_conjunctions(sample)
    names = {term.decode(): number for number, term in enumerate(sample.terms, 1)}
    containing = [[names[word] for word in post.split() if word in names] for post in texts]
    measured = sample.measure_work()
    entries = np.bincount(anchor_terms(sample.conjunctions), measured.entries, len(names) + 1)
    assert measured.posts[1:].tolist() == [sum(w in post for post in containing) for w in range(1, len(names) + 1)]
    assert entries[1:].tolist() == pytest.approx(
        [sum(max(c) == w for c in set(conjunctions)) for w in range(1, len(names) + 1)]
    )
    assert measured.matches.tolist() == [
        sum(conjunction <= set(post) for post in containing) for conjunction in conjunctions
    ]


def overload(loads: list[float], matcher: int, extra: int, frequency: int, work: int) -> float:
    mean = sum(loads) / len(loads) + 1
    over = max(0.0, loads[matcher] + extra + work - mean)
    return extra + WEIGHT * (frequency + work) * over / mean


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 4), st.lists(st.integers(0, 9), min_size=7, max_size=7))
def test_work_counts_as_load_of_the_matcher(texts, matchers, term_work):
    corpus = Corpus.from_texts(pa.array(texts, pa.string()))
    sets = [set(corpus.post_terms[a:b].tolist()) for a, b in itertools.pairwise(corpus.post_starts.astype(int))]
    work = term_work[: len(corpus.terms)]
    chosen = [-1] * len(work)
    order = sorted(range(len(work)), key=lambda word: -(int(corpus.frequency[word]) + work[word]))
    for word in order * 2:  # every term is assigned twice
        chosen[word] = -1
        loads = [
            sum(any(chosen[o] == m for o in post) for post in sets)
            + sum(w for w, c in zip(work, chosen, strict=True) if c == m)
            for m in range(matchers)
        ]
        containing = [post for post in sets if word in post]
        extra = [sum(not any(chosen[o] == m for o in post) for post in containing) for m in range(matchers)]
        keys = [(overload(loads, m, extra[m], len(containing), work[word]), extra[m], m) for m in range(matchers)]
        chosen[word] = min(keys)[2]
    assert salb_plus(corpus, matchers, np.array(work, np.int64)).tolist() == chosen


def test_co_occurring_terms_are_separated_if_their_work_is_too_much():
    """Two terms in all ten posts cost ten posts on one matcher and twenty on two; with work they are separated."""
    corpus = Corpus.from_texts(pa.array(["storm flood"] * 10, pa.string()))
    assert len(set(salb_plus(corpus, 2, np.array([100, 100])).tolist())) == 2


def test_only_anchors_are_learned_and_one_with_much_work_is_split():
    texts = ["storm flood"] * 50 + ["storm"] * 30 + ["coffee"] * 40
    query_texts = ["storm flood", "storm", *["coffee"] * 40]  # many subscriptions contain coffee
    plan = fit_work_aware(build_sample(texts, query_texts), 8)
    known = dict(zip(plan.vocabulary.terms(), plan.splits.counts.tolist(), strict=True))
    assert set(known) == {b"storm", b"flood", b"coffe"}
    assert known[b"coffe"] > 1
    assert set(fit_work_aware(build_sample(texts, query_texts), 8, split_hot=False).splits.counts.tolist()) == {1}
    without_anchor = fit_work_aware(build_sample(texts, ["storm flood", "storm flood"]), 8, split_hot=False)
    assert len(without_anchor.vocabulary) == 1


@settings(max_examples=200, deadline=None)
@given(posts, queries, st.integers(1, 8))
def test_every_anchor_that_occurs_was_learned(texts, query_texts, matchers):
    """An index derives the anchors from the hot terms of the plan: they must be those that the plan was learned for."""
    sample = build_sample(texts, query_texts)
    plan = fit_work_aware(sample, matchers)
    hot = np.flatnonzero(np.concatenate([[False], plan.splits_of(sample.terms).counts > 1])).astype(np.uint32)
    anchors = np.unique(anchor_terms(sample.conjunctions, hot))
    occurring = [
        sample.terms[anchor - 1] for anchor in anchors.tolist() if anchor and (sample.posts.terms == anchor).any()
    ]
    assert (plan.vocabulary.find_ids(occurring) > 0).all()
    assert set(plan.vocabulary.terms()) <= {*occurring, *(sample.terms[word - 1] for word in hot.tolist())}


def test_a_word_of_a_few_posts_has_no_splits_however_many_subscriptions_contain_it():
    texts = ["storm"] * 30 + ["coffee"] * 5 + [f"rare{number}" for number in range(40)]
    plan = fit_work_aware(build_sample(texts, ["storm", *["coffee"] * 500]), 8)
    assert plan.splits_of([b"coffe"]).counts.tolist() == [1]
    more = fit_work_aware(build_sample(texts * 8, ["storm", *["coffee"] * 500]), 8)
    assert more.splits_of([b"coffe"]).counts.tolist() == [4]


def test_hot_term_that_is_not_an_anchor_stays_hot():
    """Otherwise an index would use `work` as the anchor of a subscription with two hot terms."""
    texts = ["great work"] * 60 + ["work"] * 60 + [f"rare{number}" for number in range(40)]
    plan = fit_work_aware(
        build_sample(texts, ["great work", "work rare1", *(f"rare{number}" for number in range(40))]), 8
    )
    assert (plan.splits_of([b"work", b"great"]).counts > 1).all()


def test_a_repeated_word_counts_once():
    """Counted as often as it is said, `storm` would be in half of all posts and hot."""
    texts = [*["storm " * 40] * 4, *(f"rare{number % 20}" for number in range(160))]
    plan = fit_work_aware(build_sample(texts, ["storm", *(f"rare{number}" for number in range(20))]), 8)
    assert set(plan.splits.counts.tolist()) == {1}
    assert plan.splits_of([b"storm"]).counts.tolist() == [1]


def test_plan_without_subscriptions_is_learned_from_the_terms():
    texts = pa.array(["storm flood", "storm"] * 10, pa.string())
    plan = fit_texts("salb+", texts, [b"storm", b"flood"], None, 2)
    assert plan.algorithm == "salb+"
    assert fit_texts("gc", texts, [b"storm", b"flood"], None, 2).algorithm == "gc"
