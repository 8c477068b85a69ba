"""The retry policy: three days of retries, and the conditions that end them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.delivery.webhooks.policy import DELAYS_S, JITTER, MAX_DELAY_S, DeliveryOutcome, decide

DAY_S = 86_400.0
REFUSED = DeliveryOutcome(None, "the connection was refused")
OUTCOMES = st.builds(
    DeliveryOutcome,
    st.none() | st.integers(100, 599),
    st.just("no answer"),
    st.none() | st.floats(0, 1e9),
)


def attempt_times(outcome: DeliveryOutcome, random: float = 0.0) -> list[float]:
    """Return the times of all attempts of a message that always has this outcome."""
    now, failures, times = 0.0, 0, []
    while True:
        times.append(now)
        decision = decide(failures, outcome, now, random)
        if decision.due_at is None:
            return times
        now, failures = decision.due_at, decision.failures


def test_the_schedule_is_that_of_the_specification():
    hours = [0, 5 / 3600, 5 / 60, 0.5, 2, 5, 10, 14, 20, 24]
    expected = [sum(hours[: count + 1]) * 3600 for count in range(10)]
    assert attempt_times(REFUSED) == pytest.approx(expected)
    assert 3 * DAY_S < expected[-1] < 3.2 * DAY_S


def test_the_webhook_is_disabled_with_a_reason_after_the_last_attempt():
    decision = decide(len(DELAYS_S), REFUSED, 0.0, 0.5)
    assert (decision.delivered, decision.due_at) == (False, None)
    assert decision.error == "10 attempts failed, the last: the connection was refused"


def test_a_receiver_that_is_back_within_three_days_gets_the_message():
    now, failures = 0.0, 0
    while True:
        decision = decide(failures, DeliveryOutcome(204) if now >= 3 * DAY_S else REFUSED, now, 0.3)
        if decision.delivered:
            break
        assert decision.due_at is not None, "given up before the receiver was back"
        now, failures = decision.due_at, decision.failures
    assert now < 3.5 * DAY_S
    assert (decision.failures, decision.error) == (0, "")


def test_status_410_disables_the_webhook_immediately():
    assert attempt_times(DeliveryOutcome(410)) == [0.0]
    assert not decide(0, DeliveryOutcome(410), 0.0, 0.0).delivered


def test_jitter_spreads_the_retries():
    assert attempt_times(REFUSED, 1.0)[-1] == pytest.approx(attempt_times(REFUSED, 0.0)[-1] * (1 + JITTER))


@pytest.mark.parametrize(
    ("retry_after_s", "delay"),
    [(None, 5.0), (0.0, 5.0), (60.0, 60.0), (1e9, MAX_DELAY_S)],
    ids=["nothing", "now", "later", "never"],
)
def test_retry_after_extends_the_delay_up_to_a_limit(retry_after_s, delay):
    assert decide(0, DeliveryOutcome(429, retry_after_s=retry_after_s), 1_000.0, 0.0).due_at == 1_000.0 + delay


def test_a_redirect_is_a_failure_with_a_hint():
    decision = decide(0, DeliveryOutcome(301), 0.0, 0.0)
    assert not decision.delivered
    assert decision.error.startswith("answered 301 Moved Permanently: redirects are not followed")


@settings(deadline=None)
@given(st.integers(0, 20), OUTCOMES, st.floats(0, 2e9), st.floats(0, 1))
def test_an_attempt_delivers_or_is_retried_or_disables_the_webhook(failures, outcome, now, random):
    decision = decide(failures, outcome, now, random)
    assert decision.delivered == (outcome.status is not None and 200 <= outcome.status <= 299)
    assert decision.failures == (0 if decision.delivered else failures + 1)
    assert bool(decision.error) != decision.delivered
    if decision.due_at is not None:
        assert now < decision.due_at <= now + MAX_DELAY_S * (1 + JITTER)
        assert decision.failures <= len(DELAYS_S)
