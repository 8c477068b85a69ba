"""What follows from an attempt: three days of retries under a fake clock, and the ways out of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.delivery.webhooks.policy import DELAYS_S, JITTER, LONGEST_S, Outcome, decide

DAY_S = 86_400.0
REFUSED = Outcome(None, "the connection was refused")
OUTCOMES = st.builds(
    Outcome,
    st.none() | st.integers(100, 599),
    st.just("no answer"),
    st.none() | st.floats(0, 1e9),
)


def attempts(outcome: Outcome, chance: float = 0.0) -> list[float]:
    """When a message that always has this outcome is tried, from 0 on."""
    now, failures, tried = 0.0, 0, []
    while True:
        tried.append(now)
        after = decide(failures, outcome, now, chance)
        if after.due_at is None:
            return tried
        now, failures = after.due_at, after.failures


def test_the_schedule_is_that_of_the_specification():
    hours = [0, 5 / 3600, 5 / 60, 0.5, 2, 5, 10, 14, 20, 24]
    expected = [sum(hours[: count + 1]) * 3600 for count in range(10)]
    assert attempts(REFUSED) == pytest.approx(expected)
    assert 3 * DAY_S < expected[-1] < 3.2 * DAY_S


def test_after_the_last_attempt_the_hook_is_switched_off_and_says_why():
    after = decide(len(DELAYS_S), REFUSED, 0.0, 0.5)
    assert (after.delivered, after.due_at) == (False, None)
    assert after.error == "10 attempts failed, the last: the connection was refused"


def test_a_receiver_that_comes_back_within_three_days_gets_the_message():
    now, failures = 0.0, 0
    while True:
        after = decide(failures, Outcome(204) if now >= 3 * DAY_S else REFUSED, now, 0.3)
        if after.delivered:
            break
        assert after.due_at is not None, "given up before it came back"
        now, failures = after.due_at, after.failures
    assert now < 3.5 * DAY_S
    assert (after.failures, after.error) == (0, "")


def test_gone_means_gone_at_the_first_word():
    assert attempts(Outcome(410)) == [0.0]
    assert not decide(0, Outcome(410), 0.0, 0.0).delivered


def test_chance_spreads_what_failed_together():
    assert attempts(REFUSED, 1.0)[-1] == pytest.approx(attempts(REFUSED, 0.0)[-1] * (1 + JITTER))


@pytest.mark.parametrize(
    ("asked", "delay"),
    [(None, 5.0), (0.0, 5.0), (60.0, 60.0), (1e9, LONGEST_S)],
    ids=["nothing", "now", "later", "never"],
)
def test_a_receiver_may_ask_for_more_time_but_not_for_ever(asked, delay):
    assert decide(0, Outcome(429, retry_after_s=asked), 1_000.0, 0.0).due_at == 1_000.0 + delay


def test_a_redirect_is_no_delivery_and_says_what_to_do():
    after = decide(0, Outcome(301), 0.0, 0.0)
    assert not after.delivered
    assert after.error.startswith("answered 301 Moved Permanently: redirects are not followed")


@settings(deadline=None)
@given(st.integers(0, 20), OUTCOMES, st.floats(0, 2e9), st.floats(0, 1))
def test_an_attempt_delivers_or_is_followed_by_another_or_ends_it_all(failures, outcome, now, chance):
    after = decide(failures, outcome, now, chance)
    assert after.delivered == (outcome.status is not None and 200 <= outcome.status <= 299)
    assert after.failures == (0 if after.delivered else failures + 1)
    assert bool(after.error) != after.delivered
    if after.due_at is not None:
        assert now < after.due_at <= now + LONGEST_S * (1 + JITTER)
        assert after.failures <= len(DELAYS_S)
