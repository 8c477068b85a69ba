"""The refresh policy, with a given time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.balance.refresh_policy import MIN_POSTS, PlanHistory, RefreshPolicy, RefreshReason
from tidings.balance.word_plan_metrics import WordPlanMetrics

DAY_S = 86_400.0
EVEN, UNEVEN = [5_000, 5_000, 5_000, 5_000], [9_000, 1_000, 5_000, 5_000]


def learned_plan(since: float = 0.0) -> PlanHistory:
    return PlanHistory(2, True, since)


def test_nothing_is_learned_without_posts():
    assert PlanHistory(1, False, 0.0).reason_to_refresh(RefreshPolicy(1.0), 1e9, is_requested=True, sample=0) is None


def test_every_plan_is_learned_from_enough_posts():
    hashed, worse = PlanHistory(1, False, 0.0), learned_plan().add_batch(MIN_POSTS, EVEN).add_batch(MIN_POSTS, UNEVEN)
    cases = [
        (hashed, RefreshPolicy(), False, RefreshReason.first),
        (hashed, RefreshPolicy(), True, RefreshReason.requested),
        (learned_plan(), RefreshPolicy(None, None), True, RefreshReason.requested),
        (learned_plan(), RefreshPolicy(DAY_S), False, RefreshReason.schedule),
        (worse, RefreshPolicy(), False, RefreshReason.degraded),
    ]
    for history, policy, is_requested, reason in cases:
        assert history.reason_to_refresh(policy, DAY_S, is_requested, MIN_POSTS - 1) is None
        assert history.reason_to_refresh(policy, DAY_S, is_requested, MIN_POSTS) == reason
    assert hashed.reason_to_refresh(RefreshPolicy(min_posts=20), 0.0, False, 20) == RefreshReason.first


def test_schedule_counts_from_the_last_plan():
    rules = RefreshPolicy(DAY_S)
    assert learned_plan(1000.0).reason_to_refresh(rules, 1000.0 + DAY_S - 1, False, MIN_POSTS) is None
    assert learned_plan(1000.0).reason_to_refresh(rules, 1000.0 + DAY_S, False, MIN_POSTS) == RefreshReason.schedule
    assert learned_plan(1000.0).reason_to_refresh(RefreshPolicy(None), 1e12, False, MIN_POSTS) is None


def test_plan_is_refreshed_only_if_it_degraded_by_the_factor():
    new = learned_plan().add_batch(MIN_POSTS, EVEN)
    assert (new.first_value, new.value) == (2.0, 2.0)  # every post goes to two of four matchers, evenly
    assert new.reason_to_refresh(RefreshPolicy(), 0.0, False, MIN_POSTS) is None
    worse = new.add_batch(MIN_POSTS, UNEVEN)
    assert (worse.first_value, worse.value) == (2.0, 3.6)
    assert worse.reason_to_refresh(RefreshPolicy(factor=1.8), 0.0, False, MIN_POSTS) == RefreshReason.degraded
    assert worse.reason_to_refresh(RefreshPolicy(factor=1.81), 0.0, False, MIN_POSTS) is None
    assert worse.reason_to_refresh(RefreshPolicy(factor=None), 0.0, False, MIN_POSTS) is None
    assert worse.add_batch(MIN_POSTS, EVEN).reason_to_refresh(RefreshPolicy(), 0.0, False, MIN_POSTS) is None, (
        "it has recovered"
    )


@given(st.lists(st.tuples(st.integers(1, 4_000), st.lists(st.integers(0, 4_000), min_size=3, max_size=3)), max_size=20))
def test_value_is_imbalance_times_spread_since_the_last_value(batches):
    history, posts, loads = learned_plan(), 0, [0, 0, 0]
    for count, batch_loads in batches:
        history = history.add_batch(count, batch_loads)
        posts, loads = posts + count, [a + b for a, b in zip(loads, batch_loads, strict=True)]
        if posts >= MIN_POSTS:
            expected = WordPlanMetrics(posts, tuple(loads))
            assert history.value == pytest.approx(expected.imbalance * expected.spread)
            posts, loads = 0, [0, 0, 0]
    assert history.posts == posts
