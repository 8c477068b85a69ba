"""Loads of matchers are summed per matcher, and their imbalance is measured."""

from __future__ import annotations

import pytest

from tidings.matching.load import MatcherLoad, idle_loads, imbalance, sum_loads


def test_loads_are_summed_per_matcher_and_sorted():
    first = (MatcherLoad(3, 4, 1, 0.5), MatcherLoad(0, 1, 0, 0.25))
    second = (MatcherLoad(3, 6, 2, 0.5),)
    assert sum_loads(first, second) == (MatcherLoad(0, 1, 0, 0.25), MatcherLoad(3, 10, 3, 1.0))
    assert sum_loads() == ()


def test_idle_matchers_are_included():
    assert [load.posts for load in sum_loads(idle_loads(3), [MatcherLoad(1, 5, 0, 0.1)])] == [0, 5, 0]


@pytest.mark.parametrize(
    ("seconds", "ratio"), [([1, 1], 1), ([3, 1], 1.5), ([1, 0, 0], 3), ([5], None), ([0, 0], None)]
)
def test_imbalance_is_the_largest_load_divided_by_the_mean(seconds, ratio):
    assert imbalance([MatcherLoad(number, 0, 0, load) for number, load in enumerate(seconds)]) == ratio
