"""Placers satisfy the contract and place as their definitions do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.plan.placement.lasp import place_by_load
from tidings.plan.placement.match_cost import MatchCost
from tidings.plan.placement.placer import PLACERS, check_placement
from tidings.plan.placement.random import place_at_random
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.plan.words import hash_to_matchers
from tidings.query.conjunctions import Conjunctions
from tidings.testing.contract import check_placer, compile_for_placer
from tidings.testing.log import captured_events
from tidings.testing.strategies import query_lists


@pytest.mark.parametrize("name", PLACERS)
def test_a_placer_satisfies_the_contract(name):
    check_placer(PLACERS[name])


def test_the_shipped_check_rejects_a_wrong_placer():
    with pytest.raises(AssertionError, match="none of its terms"):
        check_placer(
            lambda conjunctions, matcher_of, matchers, seed, shard_terms: np.zeros(len(conjunctions), np.uint16)
        )


def test_random_placement_chooses_each_eligible_matcher_equally_often():
    words = [f"w{number}" for number in range(60)]
    terms = [word.encode() for word in words]
    matcher_of_word = hash_to_matchers(terms, 2)
    many, few = [[w for w, m in zip(words, matcher_of_word, strict=True) if m == side] for side in (0, 1)]
    query = " ".join([*many[:9], few[0]])  # nine words of one matcher, one of the other
    conjunctions, matcher_of = compile_for_placer([query] * 4000, 2)
    chosen = place_at_random(conjunctions, matcher_of, 2, 1, lambda: ShardTerms.empty(2))
    assert 0.45 < np.mean(chosen) < 0.55


@settings(max_examples=100, deadline=None)
@given(query_lists, st.sampled_from([1, 2, 3, 8, 70, 1024]))
def test_anchor_placement_follows_the_rarest_or_a_common_term(queries, matchers):
    compiled, matcher_of = compile_for_placer(queries, matchers)
    conjunctions = compiled.order_terms(compiled.terms)  # the largest number is the rarest term
    chosen = PLACERS["anchor"](conjunctions, matcher_of, matchers, 0, lambda: ShardTerms.empty(matchers))
    words = [set(conjunctions.terms[a:b].tolist()) for a, b in itertools.pairwise(conjunctions.starts.tolist())]
    for number, owner in enumerate(conjunctions.subscription.tolist()):
        siblings = [words[row] for row in np.flatnonzero(conjunctions.subscription == owner).tolist()]
        deciding = set.intersection(*siblings) or words[number]
        assert not deciding or chosen[number] == matcher_of[max(deciding)]


def test_an_unknown_placer_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InputError, match="Choose one of: anchor, lasp, lasp-printed, random"):
        check_placement("best")


def test_the_old_name_of_anchor_placement_works_with_one_warning():
    check_placement.cache_clear()
    with captured_events("tidings.plan") as events:
        assert [check_placement(name) for name in ("rarest", "rarest", "anchor")] == ["anchor"] * 3
    assert events == ["placement is deprecated and will be removed in 1.0 old=rarest new=anchor"]


def lasp_by_definition(subscriptions, matcher_of, matchers, cost, as_printed):
    """Return the placement of algorithm 2; ties go to the smaller extra load, at last to the lower matcher.

    By the text, ties go to the matcher of the anchor before, or to that with the fewest terms.
    """
    matcher_terms = [set() for _ in range(matchers)]
    placed = []
    for words in subscriptions:
        best = None
        for matcher in sorted({int(matcher_of[word]) for word in words}):
            extra = len(words - matcher_terms[matcher])
            sizes = [len(matcher_terms[m] | (words if m == matcher else set())) for m in range(matchers)]
            loads = [cost.base_ns + cost.term_ns * size for size in sizes]
            imbalance = float(np.std(loads) / np.mean(loads)) if np.mean(loads) else 0.0
            increase = cost.term_ns * extra + (cost.base_ns if as_printed else 0.0)
            rank = (matcher != matcher_of[max(words)], len(matcher_terms[matcher]))
            key = (round(increase * imbalance, 9), extra, *(() if as_printed else rank), matcher)
            best = key if best is None else min(best, key)
        placed.append(best[-1])
        matcher_terms[best[-1]] |= words
    return placed


def to_conjunctions(subscriptions) -> Conjunctions:
    starts = np.concatenate([[0], np.cumsum([len(words) for words in subscriptions])]).astype(np.uint64)
    terms = np.array([word for words in subscriptions for word in sorted(words, reverse=True)], np.uint32)
    owner, none = np.arange(len(subscriptions), dtype=np.uint32), np.zeros(len(subscriptions))
    return Conjunctions(terms, starts, owner, none.astype(np.uint32), [], np.zeros((0, 4)), none.astype(np.int64) - 1)


term_sets = st.sets(st.integers(1, 12), min_size=1, max_size=4)


@pytest.mark.parametrize("as_printed", [False, True])
@settings(max_examples=100, deadline=None)
@given(st.lists(term_sets, max_size=12), st.lists(st.integers(0, 3), min_size=13, max_size=13))
def test_lasp_places_as_algorithm_2_of_the_paper(as_printed, subscriptions, mapping):
    matcher_of, cost = np.array(mapping, np.uint16), MatchCost(base_ns=2.0, term_ns=1.0)
    current = ShardTerms.empty(4)
    chosen = place_by_load(to_conjunctions(subscriptions), matcher_of, 4, 0, lambda: current, cost, as_printed)
    assert chosen.tolist() == lasp_by_definition(subscriptions, matcher_of, 4, cost, as_printed)
    assert not current.bits.any(), "the map is left as it was"
    assert not current.sizes.any()


def test_lasp_groups_similar_subscriptions_as_the_text_says():
    """By the text a matcher with all terms costs nothing; as printed, the evener loads win."""
    matcher_of, cost = np.array([0, 0, 1], np.uint16), MatchCost(base_ns=400.0, term_ns=1.0)
    current = ShardTerms.of([(0, np.arange(1, 10, dtype=np.uint32)), (1, np.arange(3, 10, dtype=np.uint32))], 10, 2)
    query = to_conjunctions([{1, 2}])
    assert place_by_load(query, matcher_of, 2, 0, lambda: current, cost).tolist() == [0]
    assert place_by_load(query, matcher_of, 2, 0, lambda: current, cost, as_printed=True).tolist() == [1]


def test_placing_one_after_another_gives_what_placing_together_gives():
    rng = np.random.default_rng(4)
    subscriptions = [set(rng.integers(1, 40, 3).tolist()) for _ in range(200)]
    matcher_of = np.concatenate([[0], rng.integers(0, 8, 40)]).astype(np.uint16)
    together = place_by_load(to_conjunctions(subscriptions), matcher_of, 8, 0, lambda: ShardTerms.empty(8))
    current, placed = ShardTerms.empty(8), []
    for words in subscriptions:
        placed += place_by_load(to_conjunctions([words]), matcher_of, 8, 0, lambda: current).tolist()
        current.add(placed[-1], np.array(sorted(words), np.uint32))
    assert placed == together.tolist()


def test_lasp_continues_from_the_terms_that_matchers_hold():
    matcher_of = np.array([0, 0, 1], np.uint16)
    query = to_conjunctions([{1, 2}])
    cost = MatchCost(base_ns=0.0, term_ns=1.0)
    for holder in (0, 1):
        current = ShardTerms.of([(holder, np.array([1, 2], np.uint32))], 2, 2)
        assert place_by_load(query, matcher_of, 2, 0, lambda current=current: current, cost).tolist() == [holder]
