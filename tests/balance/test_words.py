"""The word partitioners of S³-TM against their definitions, word by word and post by post."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import real_tweets

from tidings.balance.corpus import Corpus
from tidings.balance.metis_cut import CooccurrenceGraph, correct_frequency, gfc
from tidings.balance.salb import salb, salb_plus
from tidings.balance.split_corpus import split_hot_terms
from tidings.balance.word_plan_metrics import WordPlanMetrics, measure_word_plan
from tidings.balance.word_registry import fit_word_plan
from tidings.plan.hot_splits import HotSplits, split_counts
from tidings.text.reference_analyzer import analyze
from tidings.text.vocabulary import Vocabulary

words = st.sampled_from([f"w{number}" for number in range(9)])
posts = st.lists(st.lists(words, max_size=5), max_size=14)
matchers_of_nine = st.lists(st.integers(0, 3), min_size=9, max_size=9)


def corpus_of(said: list[list[str]]) -> Corpus:
    return Corpus.from_texts(pa.array([" ".join(post) for post in said], pa.string()))


def sets_of(corpus: Corpus) -> list[set[int]]:
    starts = corpus.post_starts.astype(int)
    return [set(corpus.post_terms[a:b].tolist()) for a, b in itertools.pairwise(starts)]


def loads_by_definition(posts: list[set[int]], matcher_of: list[int], matchers: int) -> list[int]:
    """L(i) = how many posts have a word of matcher i."""
    return [sum(any(matcher_of[word] == matcher for word in post) for post in posts) for matcher in range(matchers)]


@settings(max_examples=100, deadline=None)
@given(posts)
def test_a_corpus_is_the_posts_as_sets_of_words_the_most_frequent_first(said):
    corpus = corpus_of(said)
    assert [{corpus.terms[word].decode() for word in post} for post in sets_of(corpus)] == [set(post) for post in said]
    assert corpus.frequency.tolist() == sorted(Counter(w for post in said for w in set(post)).values(), reverse=True)
    by_word = [corpus.term_posts[a:b].tolist() for a, b in itertools.pairwise(corpus.term_starts.astype(int))]
    assert by_word == [[n for n, post in enumerate(said) if t.decode() in post] for t in corpus.terms]


def test_a_corpus_holds_no_stop_words_and_with_subscribed_words_only_these():
    texts = pa.array(["The cat and the dog", "dogs https://t.co/x @me", None, ""])
    assert set(Corpus.from_texts(texts).terms) == {b"cat", b"dog"}
    restricted = Corpus.from_texts(texts, Vocabulary.build([b"dog", b"fish"]))
    assert (restricted.terms, restricted.size, restricted.frequency.tolist()) == ((b"dog",), 4, [2])


def test_a_sample_is_drawn_without_repeating_and_alike_for_a_seed():
    corpus = corpus_of([[f"w{number}"] for number in range(50)])
    some = corpus.sample(20, seed=3)
    assert (some.size, len(some.terms)) == (20, 20)
    assert some.terms == corpus.sample(20, seed=3).terms != corpus.sample(20, seed=4).terms
    assert corpus.sample(99, seed=1) is corpus


@settings(max_examples=100, deadline=None)
@given(posts, matchers_of_nine)
def test_loads_are_counted_as_defined(said, mapping):
    corpus = corpus_of(said)
    metrics = measure_word_plan(corpus, HotSplits.unsplit(np.array(mapping, np.uint16)[: len(corpus.terms)]), 4)
    assert list(metrics.loads) == loads_by_definition(sets_of(corpus), mapping, 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 99))
def test_figures_follow_from_the_loads_as_defined(loads, count):
    metrics = WordPlanMetrics(count, tuple(loads))
    assert metrics.spread == pytest.approx(sum(loads) / count)
    if not any(loads):
        assert (metrics.imbalance, metrics.cov, metrics.gini, metrics.throughput) == (1, 0, 0, float("inf"))
        return
    mean = sum(loads) / len(loads)
    assert metrics.imbalance == pytest.approx(max(loads) / mean)
    assert metrics.cov == pytest.approx((sum((load - mean) ** 2 for load in loads) / len(loads)) ** 0.5 / mean)
    pairs = sum(abs(a - b) for a in loads for b in loads)
    assert metrics.gini == pytest.approx(pairs / (2 * len(loads) ** 2 * mean))
    assert metrics.throughput == pytest.approx(min(count / load for load in loads if load))


def greedy(posts: list[set[int]], count: int, matchers: int, key) -> list[int]:
    """Algorithm 1 with any rule: `key(loads, matcher, extra, frequency)` of the chosen matcher is the least."""
    chosen: dict[int, int] = {}
    loads = [0] * matchers
    for word in range(count):  # numbered in descending frequency
        saying = [post for post in posts if word in post]
        best = None
        for matcher in range(matchers):
            extra = sum(not any(chosen.get(other) == matcher for other in post) for post in saying)
            found = (key(loads, matcher, extra, len(saying)), extra, matcher)
            best = found if best is None else min(best, found)
        chosen[word] = best[2]
        loads[best[2]] += best[1]
    return [chosen[word] for word in range(count)]


def as_printed(loads, matcher, extra, frequency):
    """Spread × coefficient of variation; in whole numbers, (N·σ)²."""
    after = [load + extra * (number == matcher) for number, load in enumerate(loads)]
    return len(after) * sum(load * load for load in after) - sum(after) ** 2


def as_it_should_be(loads, matcher, extra, frequency):
    mean = sum(loads) / len(loads) + 1
    return extra + 4.0 * frequency * max(0.0, loads[matcher] + extra - mean) / mean


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 5))
def test_salb_is_the_algorithm_as_printed(said, matchers):
    corpus = corpus_of(said)
    assert salb(corpus, matchers).tolist() == greedy(sets_of(corpus), len(corpus.terms), matchers, as_printed)


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 5))
def test_salb_plus_is_the_greedy_that_counts_overload_as_extra_load_and_chooses_twice(said, matchers):
    corpus = corpus_of(said)
    chosen = greedy(sets_of(corpus), len(corpus.terms), matchers, as_it_should_be)
    for word in range(len(chosen)):
        chosen[word] = -1
        loads = loads_by_definition(sets_of(corpus), chosen, matchers)
        saying = [post for post in sets_of(corpus) if word in post]
        extra = [sum(not any(chosen[o] == m for o in post) for post in saying) for m in range(matchers)]
        keys = [(as_it_should_be(loads, m, extra[m], len(saying)), extra[m], m) for m in range(matchers)]
        chosen[word] = min(keys)[2]
    assert salb_plus(corpus, matchers).tolist() == chosen


def test_salb_on_an_example_computed_by_hand():
    """a is in four posts, b in three, c in two, d in one. a → 0 (all alike), b → 1 (σ 0.5 instead of 3 or 1.5),
    c brings 1 to matcher 0 (it is there with a once) or 2 to matcher 1: loads (5, 3) or (4, 5): the latter. d → 0."""
    corpus = corpus_of([[f"w{word}" for word in post] for post in ("ac", "a", "a", "a", "b", "b", "b", "c", "d")])
    assert [term.decode() for term in corpus.terms] == ["wa", "wb", "wc", "wd"]
    assert salb(corpus, 2).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("matchers", [8, 64])
def test_on_real_tweets_salb_plus_beats_salb_and_hashing(matchers):
    corpus = Corpus.from_texts(pa.array(real_tweets(20_000), pa.string()))
    known, unseen = corpus.select(np.arange(0, corpus.size, 2)), corpus.select(np.arange(1, corpus.size, 2))
    reached = {}
    for name in ("salb+", "salb", "hash"):
        versions = fit_word_plan(name, known, matchers).splits_of(unseen.terms)
        reached[name] = measure_word_plan(unseen, versions, matchers).throughput
    assert reached["salb+"] > reached["salb"]
    assert reached["salb+"] > reached["hash"]


@settings(max_examples=60, deadline=None)
@given(posts)
def test_the_network_is_who_occurs_with_whom(said):
    corpus = corpus_of(said)
    network = CooccurrenceGraph.from_corpus(corpus)
    pairs = Counter(pair for post in sets_of(corpus) for pair in itertools.permutations(post, 2))
    found = {}
    for word, (a, b) in enumerate(itertools.pairwise(network.starts.astype(int))):
        for other, count in zip(network.neighbours[a:b].tolist(), network.weights[a:b].tolist(), strict=True):
            found[word, other] = count
    assert found == dict(pairs)
    company = [sum(count for (word, _), count in pairs.items() if word == w) for w in range(len(corpus.terms))]
    assert network.sum_neighbour_weights().tolist() == company


def test_words_that_always_occur_together_weigh_as_one_of_them():
    assert correct_frequency(np.array([6, 6, 6]), np.array([12.0, 12.0, 12.0])).tolist() == [2000, 2000, 2000]
    assert correct_frequency(np.array([5]), np.array([0.0])).tolist() == [5000]


def test_cutting_the_network_keeps_two_circles_of_words_apart():
    circles = ["abc", "bcd", "ad", "klm", "lmn", "kn"] * 5
    corpus = corpus_of([[f"w{word}" for word in post] for post in circles])
    parts = gfc(corpus, 2)
    side = {term.decode()[1]: int(part) for term, part in zip(corpus.terms, parts, strict=True)}
    assert len({side[word] for word in "abcd"}) == len({side[word] for word in "klmn"}) == 1
    assert side["a"] != side["k"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=20), st.integers(1, 64))
def test_no_version_of_a_word_has_more_than_half_of_what_a_matcher_should_handle(frequency, matchers):
    counts = split_counts(np.array(frequency), matchers)
    cap = sum(frequency) / matchers / 2
    for count, versions in zip(frequency, counts.tolist(), strict=True):
        assert count / versions <= cap + 1e-9
        assert versions == 1 or count / (versions - 1) > cap - 1e-9


def test_splitting_replaces_a_word_by_its_versions_about_equally_often():
    corpus = corpus_of([["cat", "dog"]] * 3000 + [["fish"]] * 10)
    apart, starts = split_hot_terms(corpus, np.array([3, 1, 1]))
    assert starts.tolist() == [0, 3, 4, 5]
    counts = apart.frequency
    assert counts[:3].sum() == 3000
    assert counts[:3].min() > 850
    assert counts[3:].tolist() == [3000, 10]


def test_splitting_the_hot_words_lets_many_matchers_share_a_load_no_two_could_before():
    rng = np.random.default_rng(1)
    said = [["rain", *(f"w{n}" for n in rng.integers(0, 300, 4))] for _ in range(4000)]
    corpus = corpus_of(said)
    whole, apart = (
        measure_word_plan(corpus, fit_word_plan("salb+", corpus, 32, s).splits_of(corpus.terms), 32)
        for s in (False, True)
    )
    assert whole.throughput < 1.01, "every post says it"
    assert apart.throughput > 4 * whole.throughput


def test_cleaning_by_definition_and_the_corpus_agree_on_real_tweets():
    texts = real_tweets(300)
    corpus = Corpus.from_texts(pa.array(texts, pa.string()))
    sets = [{corpus.terms[word].decode() for word in post} for post in sets_of(corpus)]
    assert sets == [set(analyze(text).terms) for text in texts]
