"""When a plan is learned anew: on a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.balance.refresh_policy import MIN_POSTS, PlanHistory, RefreshPolicy, RefreshReason
from tidings.balance.word_plan_metrics import WordPlanMetrics

DAY_S = 86_400.0
EVEN, UNEVEN = [5_000, 5_000, 5_000, 5_000], [9_000, 1_000, 5_000, 5_000]


def learned(since: float = 0.0) -> PlanHistory:
    return PlanHistory(2, True, since)


def test_without_posts_nothing_is_learned_whatever_is_asked():
    assert PlanHistory(1, False, 0.0).reason_to_refresh(RefreshPolicy(1.0), 1e9, is_requested=True, sample=0) is None


def test_a_first_plan_is_learned_once_there_are_enough_posts():
    hashed = PlanHistory(1, False, 0.0)
    assert hashed.reason_to_refresh(RefreshPolicy(), 0.0, False, MIN_POSTS - 1) is None
    assert hashed.reason_to_refresh(RefreshPolicy(), 0.0, False, MIN_POSTS) == RefreshReason.first


def test_who_asks_gets_a_plan_at_once():
    assert learned().reason_to_refresh(RefreshPolicy(None, None), 0.0, True, 1) == RefreshReason.requested


def test_the_schedule_counts_from_the_last_plan_on():
    rules = RefreshPolicy(DAY_S)
    assert learned(1000.0).reason_to_refresh(rules, 1000.0 + DAY_S - 1, False, 9) is None
    assert learned(1000.0).reason_to_refresh(rules, 1000.0 + DAY_S, False, 9) == RefreshReason.schedule
    assert learned(1000.0).reason_to_refresh(RefreshPolicy(None), 1e12, False, 9) is None


def test_a_plan_that_has_become_worse_by_the_factor_is_learned_anew_and_one_that_has_not_is_not():
    new = learned().add_batch(MIN_POSTS, EVEN)
    assert (new.first_value, new.value) == (2.0, 2.0)  # everything goes to two of four matchers, evenly
    assert new.reason_to_refresh(RefreshPolicy(), 0.0, False, 9) is None
    worse = new.add_batch(MIN_POSTS, UNEVEN)
    assert (worse.first_value, worse.value) == (2.0, 3.6)
    assert worse.reason_to_refresh(RefreshPolicy(factor=1.8), 0.0, False, 9) == RefreshReason.degraded
    assert worse.reason_to_refresh(RefreshPolicy(factor=1.81), 0.0, False, 9) is None
    assert worse.reason_to_refresh(RefreshPolicy(factor=None), 0.0, False, 9) is None
    assert worse.add_batch(MIN_POSTS, EVEN).reason_to_refresh(RefreshPolicy(), 0.0, False, 9) is None, (
        "it has recovered"
    )


@given(st.lists(st.tuples(st.integers(1, 4_000), st.lists(st.integers(0, 4_000), min_size=3, max_size=3)), max_size=20))
def test_a_value_is_imbalance_times_spread_of_the_batches_since_the_last_one(batches):
    history, posts, loads = learned(), 0, [0, 0, 0]
    for count, some in batches:
        history = history.add_batch(count, some)
        posts, loads = posts + count, [a + b for a, b in zip(loads, some, strict=True)]
        if posts >= MIN_POSTS:
            wanted = WordPlanMetrics(posts, tuple(loads))
            assert history.value == pytest.approx(wanted.imbalance * wanted.spread)
            posts, loads = 0, [0, 0, 0]
    assert history.posts == posts
