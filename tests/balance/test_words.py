"""The word partitioners of S³-TM compared with their definitions, term by term and post by post."""

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
from tidings.balance.split_corpus import MIN_POSTS_PER_SPLIT, count_splits, split_hot_terms
from tidings.balance.word_plan_metrics import WordPlanMetrics, measure_word_plan
from tidings.balance.word_registry import WORD_ALGORITHMS, fit_word_plan
from tidings.plan.hot_splits import HotSplits, split_counts
from tidings.text.reference_analyzer import analyze
from tidings.text.vocabulary import Vocabulary

words = st.sampled_from([f"w{number}" for number in range(9)])
posts = st.lists(st.lists(words, max_size=5), max_size=14)
matchers_of_nine = st.lists(st.integers(0, 3), min_size=9, max_size=9)


def build_corpus(post_words: list[list[str]]) -> Corpus:
    return Corpus.from_texts(pa.array([" ".join(post) for post in post_words], pa.string()))


def to_sets(corpus: Corpus) -> list[set[int]]:
    starts = corpus.post_starts.astype(int)
    return [set(corpus.post_terms[a:b].tolist()) for a, b in itertools.pairwise(starts)]


def loads_by_definition(posts: list[set[int]], matcher_of: list[int], matchers: int) -> list[int]:
    """L(i): the number of posts with a term of matcher i."""
    return [sum(any(matcher_of[word] == matcher for word in post) for post in posts) for matcher in range(matchers)]


@settings(max_examples=100, deadline=None)
@given(posts)
def test_corpus_has_the_term_sets_of_posts_in_order_of_frequency(post_words):
    corpus = build_corpus(post_words)
    assert [{corpus.terms[word].decode() for word in post} for post in to_sets(corpus)] == [
        set(post) for post in post_words
    ]
    assert corpus.frequency.tolist() == sorted(
        Counter(w for post in post_words for w in set(post)).values(), reverse=True
    )
    by_word = [corpus.term_posts[a:b].tolist() for a, b in itertools.pairwise(corpus.term_starts.astype(int))]
    assert by_word == [[n for n, post in enumerate(post_words) if t.decode() in post] for t in corpus.terms]


def test_corpus_has_no_stop_words_and_only_subscribed_terms_if_given():
    texts = pa.array(["The cat and the dog", "dogs https://t.co/x @me", None, ""])
    assert set(Corpus.from_texts(texts).terms) == {b"cat", b"dog"}
    restricted = Corpus.from_texts(texts, Vocabulary.build([b"dog", b"fish"]))
    assert (restricted.terms, restricted.size, restricted.frequency.tolist()) == ((b"dog",), 4, [2])


def test_sample_has_no_duplicates_and_depends_on_its_seed():
    corpus = build_corpus([[f"w{number}"] for number in range(50)])
    some = corpus.sample(20, seed=3)
    assert (some.size, len(some.terms)) == (20, 20)
    assert some.terms == corpus.sample(20, seed=3).terms != corpus.sample(20, seed=4).terms
    assert corpus.sample(99, seed=1) is corpus


@settings(max_examples=100, deadline=None)
@given(posts, matchers_of_nine)
def test_loads_equal_the_definition(post_words, mapping):
    corpus = build_corpus(post_words)
    metrics = measure_word_plan(corpus, HotSplits.unsplit(np.array(mapping, np.uint16)[: len(corpus.terms)]), 4)
    assert list(metrics.loads) == loads_by_definition(to_sets(corpus), mapping, 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 99))
def test_metrics_equal_their_definitions(loads, count):
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


def assign_greedily(posts: list[set[int]], count: int, matchers: int, key) -> list[int]:
    """Algorithm 1 with any rule: the matcher with the smallest `key(loads, matcher, extra, frequency)` is chosen."""
    chosen: dict[int, int] = {}
    loads = [0] * matchers
    for word in range(count):  # numbered in descending frequency
        containing = [post for post in posts if word in post]
        best = None
        for matcher in range(matchers):
            extra = sum(not any(chosen.get(other) == matcher for other in post) for post in containing)
            found = (key(loads, matcher, extra, len(containing)), extra, matcher)
            best = found if best is None else min(best, found)
        chosen[word] = best[2]
        loads[best[2]] += best[1]
    return [chosen[word] for word in range(count)]


def printed_cost(loads, matcher, extra, frequency):
    """Spread × coefficient of variation; in integers, (N·σ)²."""
    after = [load + extra * (number == matcher) for number, load in enumerate(loads)]
    return len(after) * sum(load * load for load in after) - sum(after) ** 2


def corrected_cost(loads, matcher, extra, frequency):
    mean = sum(loads) / len(loads) + 1
    return extra + 4.0 * frequency * max(0.0, loads[matcher] + extra - mean) / mean


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 5))
def test_salb_equals_the_printed_algorithm(post_words, matchers):
    corpus = build_corpus(post_words)
    assert salb(corpus, matchers).tolist() == assign_greedily(
        to_sets(corpus), len(corpus.terms), matchers, printed_cost
    )


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 5))
def test_salb_plus_counts_overload_as_extra_load_and_assigns_twice(post_words, matchers):
    corpus = build_corpus(post_words)
    chosen = assign_greedily(to_sets(corpus), len(corpus.terms), matchers, corrected_cost)
    for word in range(len(chosen)):
        chosen[word] = -1
        loads = loads_by_definition(to_sets(corpus), chosen, matchers)
        containing = [post for post in to_sets(corpus) if word in post]
        extra = [sum(not any(chosen[o] == m for o in post) for post in containing) for m in range(matchers)]
        keys = [(corrected_cost(loads, m, extra[m], len(containing)), extra[m], m) for m in range(matchers)]
        chosen[word] = min(keys)[2]
    assert salb_plus(corpus, matchers).tolist() == chosen


def test_salb_equals_an_example_computed_by_hand():
    """a is in four posts, b in three, c in two, d in one. a → 0 (all alike), b → 1 (σ 0.5 instead of 3 or 1.5),
    c brings 1 to matcher 0 (it is there with a once) or 2 to matcher 1: loads (5, 3) or (4, 5): the latter. d → 0."""
    corpus = build_corpus([[f"w{word}" for word in post] for post in ("ac", "a", "a", "a", "b", "b", "b", "c", "d")])
    assert [term.decode() for term in corpus.terms] == ["wa", "wb", "wc", "wd"]
    assert salb(corpus, 2).tolist() == [0, 1, 1, 0]


@pytest.mark.real_data
@pytest.mark.parametrize("matchers", [8, 64])
def test_salb_plus_beats_salb_and_hash_on_real_tweets(matchers):
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
def test_graph_has_the_co_occurrences_of_terms(post_words):
    corpus = build_corpus(post_words)
    graph = CooccurrenceGraph.from_corpus(corpus)
    pairs = Counter(pair for post in to_sets(corpus) for pair in itertools.permutations(post, 2))
    found = {}
    for word, (a, b) in enumerate(itertools.pairwise(graph.starts.astype(int))):
        for other, count in zip(graph.neighbours[a:b].tolist(), graph.weights[a:b].tolist(), strict=True):
            found[word, other] = count
    assert found == dict(pairs)
    company = [sum(count for (word, _), count in pairs.items() if word == w) for w in range(len(corpus.terms))]
    assert graph.sum_neighbour_weights().tolist() == company


def test_terms_that_always_co_occur_weigh_as_one_of_them():
    assert correct_frequency(np.array([6, 6, 6]), np.array([12.0, 12.0, 12.0])).tolist() == [2000, 2000, 2000]
    assert correct_frequency(np.array([5]), np.array([0.0])).tolist() == [5000]


def test_graph_cut_separates_two_clusters_of_terms():
    circles = ["abc", "bcd", "ad", "klm", "lmn", "kn"] * 5
    corpus = build_corpus([[f"w{word}" for word in post] for post in circles])
    parts = gfc(corpus, 2)
    side = {term.decode()[1]: int(part) for term, part in zip(corpus.terms, parts, strict=True)}
    assert len({side[word] for word in "abcd"}) == len({side[word] for word in "klmn"}) == 1
    assert side["a"] != side["k"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=20), st.integers(1, 64))
def test_no_split_has_more_than_half_of_the_mean_load(frequency, matchers):
    counts = split_counts(np.array(frequency), matchers)
    cap = sum(frequency) / matchers / 2
    for count, versions in zip(frequency, counts.tolist(), strict=True):
        assert count / versions <= cap + 1e-9
        assert versions == 1 or count / (versions - 1) > cap - 1e-9


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 5_000)), min_size=1, max_size=20), st.integers(1, 64))
def test_every_split_has_enough_posts_in_the_sample(terms, matchers):
    posts, loads = np.array([f for f, _ in terms]), np.array([f + work for f, work in terms])
    counts, wanted = count_splits(posts, loads, matchers), split_counts(loads, matchers)
    for frequency, count, most in zip(posts.tolist(), counts.tolist(), wanted.tolist(), strict=True):
        assert count == max(1, min(most, frequency // MIN_POSTS_PER_SPLIT))


@pytest.mark.parametrize("name", WORD_ALGORITHMS)
def test_a_word_of_a_few_posts_has_no_splits(name):
    """From one post with two words, each word had 64 splits."""
    for copies in (1, MIN_POSTS_PER_SPLIT, 3 * MIN_POSTS_PER_SPLIT):
        plan = fit_word_plan(name, build_corpus([["cat", "dog"]] * copies), 64)
        assert plan.splits_of([b"cat", b"dog"]).counts.tolist() == [max(1, copies // MIN_POSTS_PER_SPLIT)] * 2


def test_splits_of_a_term_occur_about_equally_often():
    corpus = build_corpus([["cat", "dog"]] * 3000 + [["fish"]] * 10)
    apart, starts = split_hot_terms(corpus, np.array([3, 1, 1]))
    assert starts.tolist() == [0, 3, 4, 5]
    counts = apart.frequency
    assert counts[:3].sum() == 3000
    assert counts[:3].min() > 850
    assert counts[3:].tolist() == [3000, 10]


def test_splitting_a_hot_term_divides_its_load_among_matchers():
    rng = np.random.default_rng(1)
    post_words = [["rain", *(f"w{n}" for n in rng.integers(0, 300, 4))] for _ in range(4000)]
    corpus = build_corpus(post_words)
    whole, apart = (
        measure_word_plan(corpus, fit_word_plan("salb+", corpus, 32, s).splits_of(corpus.terms), 32)
        for s in (False, True)
    )
    assert whole.throughput < 1.01, "every post has the hot term"
    assert apart.throughput > 4 * whole.throughput


@pytest.mark.real_data
def test_corpus_equals_the_reference_analyzer_on_real_tweets():
    texts = real_tweets(300)
    corpus = Corpus.from_texts(pa.array(texts, pa.string()))
    sets = [{corpus.terms[word].decode() for word in post} for post in to_sets(corpus)]
    assert sets == [set(analyze(text).terms) for text in texts]
