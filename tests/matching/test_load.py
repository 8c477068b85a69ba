"""Loads of matchers add up, and say whether they are fair."""

from __future__ import annotations

import pytest

from tidings.matching.load import MatcherLoad, idle, imbalance, together


def test_loads_add_up_matcher_by_matcher_in_their_order():
    first = (MatcherLoad(3, 4, 1, 0.5), MatcherLoad(0, 1, 0, 0.25))
    second = (MatcherLoad(3, 6, 2, 0.5),)
    assert together(first, second) == (MatcherLoad(0, 1, 0, 0.25), MatcherLoad(3, 10, 3, 1.0))
    assert together() == ()


def test_matchers_that_did_nothing_are_there_all_the_same():
    assert [load.posts for load in together(idle(3), [MatcherLoad(1, 5, 0, 0.1)])] == [0, 5, 0]


@pytest.mark.parametrize(
    ("seconds", "ratio"), [([1, 1], 1), ([3, 1], 1.5), ([1, 0, 0], 3), ([5], None), ([0, 0], None)]
)
def test_imbalance_is_the_busiest_of_the_mean(seconds, ratio):
    assert imbalance([MatcherLoad(number, 0, 0, one) for number, one in enumerate(seconds)]) == ratio
