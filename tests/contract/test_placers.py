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
from tidings.index.conjunctions import Conjunctions
from tidings.partition.words.plan import partitioner
from tidings.place.placer import PLACERS, placer
from tidings.place.random import place_at_random

every_placer = pytest.mark.parametrize("name", PLACERS)
numbers_of_matchers = st.sampled_from([1, 2, 3, 8, 70, 1024])


def compiled(queries: list[str], matchers: int) -> tuple[Conjunctions, np.ndarray]:
    """The conjunctions of these queries, and the matcher of every term number."""
    vocabulary = GrowingVocabulary()
    conjunctions = compile_subscriptions(table(queries), vocabulary).conjunctions
    terms = vocabulary.added.terms()
    return conjunctions, np.concatenate([np.zeros(1, np.uint16), partitioner("hash", matchers).matcher_of(terms)])


@every_placer
@settings(max_examples=100, deadline=None)
@given(query_lists, numbers_of_matchers, st.integers(0, 1 << 40))
def test_a_conjunction_is_placed_on_an_eligible_matcher(name, queries, matchers, seed):
    conjunctions, matcher_of = compiled(queries, matchers)
    chosen, leads = PLACERS[name](conjunctions, matcher_of, matchers, seed)
    assert len(chosen) == len(leads) == len(conjunctions)
    for number, (matcher, lead) in enumerate(zip(chosen.tolist(), leads.tolist(), strict=True)):
        start, end = conjunctions.starts[number : number + 2].tolist()
        words = conjunctions.terms[start:end].tolist()
        assert matcher < matchers
        if words:
            assert lead in words
            assert matcher_of[lead] == matcher
        else:
            assert lead == 0, "no word leads to what is found by region"


@every_placer
@settings(max_examples=40, deadline=None)
@given(query_lists, numbers_of_matchers, st.integers(0, 1 << 40))
def test_the_same_seed_places_alike(name, queries, matchers, seed):
    conjunctions, matcher_of = compiled(queries, matchers)
    once = PLACERS[name](conjunctions, matcher_of, matchers, seed)
    again = PLACERS[name](conjunctions, matcher_of, matchers, seed)
    assert all(np.array_equal(left, right) for left, right in zip(once, again, strict=True))


def test_at_random_every_eligible_matcher_is_as_likely_however_many_words_it_has():
    words = [f"w{number}" for number in range(60)]
    terms = [word.encode() for word in words]
    mine = partitioner("hash", 2).matcher_of(terms)
    many, few = [[w for w, m in zip(words, mine, strict=True) if m == side] for side in (0, 1)]
    query = " ".join([*many[:9], few[0]])  # nine words of one matcher, one of the other
    conjunctions, matcher_of = compiled([query] * 4000, 2)
    chosen, _ = place_at_random(conjunctions, matcher_of, 2, seed=1)
    assert 0.45 < np.mean(chosen) < 0.55


@settings(max_examples=100, deadline=None)
@given(query_lists, numbers_of_matchers)
def test_by_the_rarest_the_word_with_the_largest_number_leads_unless_alternatives_share_another(queries, matchers):
    conjunctions, matcher_of = compiled(queries, matchers)
    _, leads = PLACERS["rarest"](conjunctions, matcher_of, matchers, 0)
    words = [set(conjunctions.terms[a:b].tolist()) for a, b in itertools.pairwise(conjunctions.starts.tolist())]
    for number, owner in enumerate(conjunctions.owner.tolist()):
        siblings = [words[row] for row in np.flatnonzero(conjunctions.owner == owner).tolist()]
        assert leads[number] == max(set.intersection(*siblings) or words[number], default=0)


def test_a_placer_nobody_knows_is_refused():
    with pytest.raises(InputError, match="choose one of: random, rarest"):
        placer("best")
