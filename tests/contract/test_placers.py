"""Every placer: a conjunction goes to a matcher responsible for one of its words, and that word leads posts there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import table
from tests.generators import query_lists

from tidings.errors import InputError
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.plan.placement.lasp import place_by_load
from tidings.plan.placement.match_cost import Cost
from tidings.plan.placement.placer import PLACERS, placer
from tidings.plan.placement.random import place_at_random
from tidings.plan.placement.shard_terms import Held
from tidings.plan.words import hashed
from tidings.query.conjunctions import Conjunctions

every_placer = pytest.mark.parametrize("name", PLACERS)
numbers_of_matchers = st.sampled_from([1, 2, 3, 8, 70, 1024])


def compiled(queries: list[str], matchers: int) -> tuple[Conjunctions, np.ndarray]:
    """The conjunctions of these queries, and the matcher of every term number."""
    vocabulary = GrowingVocabulary()
    conjunctions = compile_subscriptions(table(queries), vocabulary).conjunctions
    terms = vocabulary.added.terms()
    return conjunctions, np.concatenate([np.zeros(1, np.uint16), hashed(terms, matchers)])


@every_placer
@settings(max_examples=100, deadline=None)
@given(query_lists, numbers_of_matchers, st.integers(0, 1 << 40))
def test_a_conjunction_is_placed_on_an_eligible_matcher(name, queries, matchers, seed):
    conjunctions, matcher_of = compiled(queries, matchers)
    chosen = PLACERS[name](conjunctions, matcher_of, matchers, seed, lambda: Held.nothing(matchers))
    assert len(chosen) == len(conjunctions)
    for number, matcher in enumerate(chosen.tolist()):
        start, end = conjunctions.starts[number : number + 2].tolist()
        words = conjunctions.terms[start:end].tolist()
        assert matcher < matchers
        assert not words or matcher in matcher_of[words]


@every_placer
@settings(max_examples=40, deadline=None)
@given(query_lists, numbers_of_matchers, st.integers(0, 1 << 40))
def test_the_same_seed_places_alike(name, queries, matchers, seed):
    conjunctions, matcher_of = compiled(queries, matchers)
    once = PLACERS[name](conjunctions, matcher_of, matchers, seed, lambda: Held.nothing(matchers))
    again = PLACERS[name](conjunctions, matcher_of, matchers, seed, lambda: Held.nothing(matchers))
    assert np.array_equal(once, again)


def test_at_random_every_eligible_matcher_is_as_likely_however_many_words_it_has():
    words = [f"w{number}" for number in range(60)]
    terms = [word.encode() for word in words]
    mine = hashed(terms, 2)
    many, few = [[w for w, m in zip(words, mine, strict=True) if m == side] for side in (0, 1)]
    query = " ".join([*many[:9], few[0]])  # nine words of one matcher, one of the other
    conjunctions, matcher_of = compiled([query] * 4000, 2)
    chosen = place_at_random(conjunctions, matcher_of, 2, 1, lambda: Held.nothing(2))
    assert 0.45 < np.mean(chosen) < 0.55


@settings(max_examples=100, deadline=None)
@given(query_lists, numbers_of_matchers)
def test_by_the_rarest_the_word_with_the_largest_number_decides_unless_alternatives_share_another(queries, matchers):
    conjunctions, matcher_of = compiled(queries, matchers)
    chosen = PLACERS["rarest"](conjunctions, matcher_of, matchers, 0, lambda: Held.nothing(matchers))
    words = [set(conjunctions.terms[a:b].tolist()) for a, b in itertools.pairwise(conjunctions.starts.tolist())]
    for number, owner in enumerate(conjunctions.owner.tolist()):
        siblings = [words[row] for row in np.flatnonzero(conjunctions.owner == owner).tolist()]
        deciding = set.intersection(*siblings) or words[number]
        assert not deciding or chosen[number] == matcher_of[max(deciding)]


def test_a_placer_nobody_knows_is_refused():
    with pytest.raises(InputError, match="choose one of: lasp, random, rarest"):
        placer("best")


def lasp_by_definition(subscriptions, matcher_of, matchers, cost):
    """Algorithm 2 word by word; ties: the smaller extra load, then the lower matcher."""
    held = [set() for _ in range(matchers)]
    placed = []
    for words in subscriptions:
        best = None
        for matcher in sorted({int(matcher_of[word]) for word in words}):
            extra = len(words - held[matcher])
            loads = [cost.base + cost.each * len(held[m] | (words if m == matcher else set())) for m in range(matchers)]
            imbalance = float(np.std(loads) / np.mean(loads)) if np.mean(loads) else 0.0
            key = (round((cost.base + cost.each * extra) * imbalance, 9), extra, matcher)
            best = key if best is None else min(best, key)
        placed.append(best[2])
        held[best[2]] |= words
    return placed


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sets(st.integers(1, 12), min_size=1, max_size=4), max_size=12),
    st.lists(st.integers(0, 3), min_size=13, max_size=13),
)
def test_lasp_places_as_the_algorithm_is_printed(subscriptions, mapping):
    matcher_of, cost = np.array(mapping, np.uint16), Cost(base=2.0, each=1.0)
    starts = np.concatenate([[0], np.cumsum([len(words) for words in subscriptions])]).astype(np.uint64)
    terms = np.array([word for words in subscriptions for word in sorted(words)], np.uint32)
    owner = np.arange(len(subscriptions), dtype=np.uint32)
    none = np.zeros(len(subscriptions))
    conjunctions = Conjunctions(
        terms, starts, owner, none.astype(np.uint32), [], np.zeros((0, 4)), none.astype(np.int64) - 1
    )
    chosen = place_by_load(conjunctions, matcher_of, 4, 0, lambda: Held.nothing(4), cost)
    assert chosen.tolist() == lasp_by_definition(subscriptions, matcher_of, 4, cost)


def test_lasp_goes_on_from_what_the_matchers_hold_already():
    matcher_of = np.array([0, 0, 1], np.uint16)
    query = Conjunctions(
        np.array([1, 2], np.uint32),
        np.array([0, 2], np.uint64),
        np.zeros(1, np.uint32),
        np.zeros(1, np.uint32),
        [],
        np.zeros((0, 4)),
        np.array([-1]),
    )
    cost = Cost(base=0.0, each=1.0)
    for holder in (0, 1):
        held = Held.of([(holder, np.array([1, 2], np.uint32))], 2, 2)
        assert place_by_load(query, matcher_of, 2, 0, lambda held=held: held, cost).tolist() == [holder]
