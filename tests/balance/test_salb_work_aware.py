"""`salb+` that knows the subscriptions: what words bring, by definition, and where they go for it."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
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


def asked_of(said: list[str], wanted: list[str]) -> SubscriptionSample:
    vocabulary = GrowingVocabulary()
    table = pa.table({"id": np.arange(len(wanted)), "query": pa.array(wanted, pa.string())})
    conjunctions = compile_subscriptions(table, vocabulary).conjunctions
    terms = vocabulary.added.terms()
    received = concat_batches(analyze_texts(pa.array(said, pa.string()), Vocabulary.build(terms)))
    return SubscriptionSample.build(terms, conjunctions, received)


def conjunctions_of(asked: SubscriptionSample) -> list[frozenset[int]]:
    bounds = itertools.pairwise(asked.conjunctions.starts.astype(int).tolist())
    return [frozenset(asked.conjunctions.terms[a:b].tolist()) for a, b in bounds]


@settings(max_examples=100, deadline=None)
@given(posts, queries)
def test_the_work_of_words_is_counted_by_definition(said, wanted):
    asked = asked_of(said, wanted)
    asking = conjunctions_of(asked)
    names = {term.decode(): number for number, term in enumerate(asked.terms, 1)}
    saying = [[names[word] for word in post.split() if word in names] for post in said]
    said_counts, entries, matches = asked.measure_work()
    assert said_counts[1:].tolist() == [sum(post.count(w) for post in saying) for w in range(1, len(names) + 1)]
    assert entries[1:].tolist() == [sum(max(c) == w for c in set(asking)) for w in range(1, len(names) + 1)]
    assert matches.tolist() == [sum(conjunction <= set(post) for post in saying) for conjunction in asking]


def overload(loads: list[float], matcher: int, extra: int, frequency: int, work: int) -> float:
    mean = sum(loads) / len(loads) + 1
    over = max(0.0, loads[matcher] + extra + work - mean)
    return extra + WEIGHT * (frequency + work) * over / mean


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 4), st.lists(st.integers(0, 9), min_size=7, max_size=7))
def test_work_counts_as_load_wherever_a_word_goes(said, matchers, brought):
    corpus = Corpus.from_texts(pa.array(said, pa.string()))
    sets = [set(corpus.post_terms[a:b].tolist()) for a, b in itertools.pairwise(corpus.post_starts.astype(int))]
    work = brought[: len(corpus.terms)]
    chosen = [-1] * len(work)
    order = sorted(range(len(work)), key=lambda word: -(int(corpus.frequency[word]) + work[word]))
    for word in order * 2:  # every word chooses, then chooses again
        chosen[word] = -1
        loads = [
            sum(any(chosen[o] == m for o in post) for post in sets)
            + sum(w for w, c in zip(work, chosen, strict=True) if c == m)
            for m in range(matchers)
        ]
        saying = [post for post in sets if word in post]
        extra = [sum(not any(chosen[o] == m for o in post) for post in saying) for m in range(matchers)]
        keys = [(overload(loads, m, extra[m], len(saying), work[word]), extra[m], m) for m in range(matchers)]
        chosen[word] = min(keys)[2]
    assert salb_plus(corpus, matchers, np.array(work, np.int64)).tolist() == chosen


def test_words_said_together_stay_together_until_they_bring_too_much():
    """Two words in all ten posts: on one matcher they cost ten posts, on two twenty; with work they go apart."""
    corpus = Corpus.from_texts(pa.array(["storm flood"] * 10, pa.string()))
    assert len(set(salb_plus(corpus, 2, np.array([100, 100])).tolist())) == 2


def test_only_words_that_lead_are_learned_and_a_word_with_much_work_is_split():
    said = ["storm flood"] * 50 + ["storm"] * 30 + ["coffee"] * 40
    wanted = ["storm flood", "storm", *["coffee"] * 40]  # coffee is asked for by many
    plan = fit_work_aware(asked_of(said, wanted), 8)
    known = dict(zip(plan.vocabulary.terms(), plan.splits.counts.tolist(), strict=True))
    assert set(known) == {b"storm", b"flood", b"coffe"}
    assert known[b"coffe"] > 1
    assert set(fit_work_aware(asked_of(said, wanted), 8, split_hot=False).splits.counts.tolist()) == {1}
    unled = fit_work_aware(asked_of(said, ["storm flood", "storm flood"]), 8, split_hot=False)
    assert len(unled.vocabulary) == 1


@settings(max_examples=200, deadline=None)
@given(posts, queries, st.integers(1, 8))
def test_every_lead_that_is_said_was_learned_as_one(said, wanted, matchers):
    """An index takes the hot words of the plan and finds the leads by itself: the very ones the plan was made for."""
    asked = asked_of(said, wanted)
    plan = fit_work_aware(asked, matchers)
    hot = np.flatnonzero(np.concatenate([[False], plan.splits_of(asked.terms).counts > 1])).astype(np.uint32)
    leads = np.unique(anchor_terms(asked.conjunctions, hot))
    heard = [asked.terms[lead - 1] for lead in leads.tolist() if lead and (asked.posts.terms == lead).any()]
    assert (plan.vocabulary.find_ids(heard) > 0).all()
    assert set(plan.vocabulary.terms()) <= {*heard, *(asked.terms[word - 1] for word in hot.tolist())}


def test_a_hot_word_that_leads_nowhere_stays_hot():
    """With `work` not told as hot, an index would let it lead who asks for two hot words."""
    said = ["great work"] * 60 + ["work"] * 60 + [f"rare{number}" for number in range(40)]
    plan = fit_work_aware(asked_of(said, ["great work", "work rare1", *(f"rare{number}" for number in range(40))]), 8)
    assert (plan.splits_of([b"work", b"great"]).counts > 1).all()


def test_who_does_not_know_what_is_asked_learns_from_the_words_alone():
    texts = pa.array(["storm flood", "storm"] * 10, pa.string())
    plan = fit_texts("salb+", texts, [b"storm", b"flood"], None, 2)
    assert plan.algorithm == "salb+"
    assert fit_texts("gc", texts, [b"storm", b"flood"], None, 2).algorithm == "gc"
