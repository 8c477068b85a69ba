"""A stream sheds as little as keeps matches within the accepted latency."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.stream.shed_controller import ShedController, levels_for, load_at
from tidings.stream.throughput import ThroughputModel

SPREAD = [0, 10, 20, 40, 20, 10]  # a hundred posts, most of which are routed to three matchers
LATENCY_S = 5.0
BASE_S, SENT_S = 0.3, 0.001  # of a batch, and of a post per matcher


def load(policy: str, limit: float) -> float:
    """Return the mean number of matchers per post."""
    return load_at(policy, SPREAD, limit) / sum(SPREAD)


class Stream:
    """A simulated stream: a batch reads the waiting posts, at most a thousand per second of latency."""

    def __init__(self, policy: str) -> None:
        self.controller, self.policy, self.now = ShedController(policy, LATENCY_S), policy, 0.0
        self.lags: list[tuple[float, float]] = []  # when a post arrived, and the latency of its match
        self.levels: list[int] = []

    def run(self, rate: float, seconds: float) -> Stream:
        """Let posts arrive one by one and match them in batches."""
        end, arriving = self.now + seconds, self.now
        waiting: list[float] = []
        while self.now < end or waiting:
            while arriving <= min(self.now, end):
                waiting.append(arriving)
                arriving += 1 / rate
            self._batch(waiting)
        return self

    def _batch(self, waiting: list[float]) -> None:
        taken, self.now = waiting[:5000], self.now + 0.1
        if self.policy != "off":
            self.controller = self.controller.decide(len(waiting), self.now)
        limit = self.controller.decision(0).limit if self.policy != "off" else math.inf
        seconds = BASE_S + SENT_S * load(self.policy, limit) * len(taken)
        self.now += seconds
        self.lags += [(arrived, self.now - arrived) for arrived in taken]
        self.levels.append(self.controller.state.level)
        self.controller = self.controller.observe_batch(len(taken), seconds, [n * len(taken) // 100 for n in SPREAD])
        del waiting[: len(taken)]


@pytest.mark.parametrize("policy", ["consensus", "subscription", "random"])
def test_shedding_keeps_the_latency_at_twice_the_capacity(policy):
    rate = 2 / (SENT_S * load(policy, math.inf))
    off = Stream("off").run(rate, 60)
    shedding = Stream(policy).run(rate, 60)
    late = [lag for arrived, lag in shedding.lags if arrived > 15]
    assert max(lag for _, lag in off.lags) > 5 * LATENCY_S
    assert np.quantile(late, 0.99) < LATENCY_S
    assert max(lag for _, lag in shedding.lags) < 2 * LATENCY_S, "also while the level rises"


@pytest.mark.parametrize("policy", ["consensus", "subscription", "random"])
def test_nothing_is_shed_below_capacity_and_soon_after_a_burst(policy):
    easy = 0.5 / (SENT_S * load(policy, math.inf))
    stream = Stream(policy).run(easy, 30)
    assert set(stream.levels) == {0}
    stream.run(4 * easy, 20)
    assert max(stream.levels) > 0
    stream.levels.clear()
    stream.run(easy, 60)
    assert stream.levels[-1] == 0


def test_a_stream_of_few_posts_is_not_considered_slow():
    model = ThroughputModel()
    for _ in range(20):
        model = model.add(3, 0.6)
    assert 1 / model.post_s > 1_000


def test_throughput_follows_the_last_batches():
    model = ThroughputModel()
    for posts in (2_000, 6_000, 4_000, 8_000) * 5:
        model = model.add(posts, 0.5 + posts / 2_000)
    assert model.seconds(10_000) == pytest.approx(5.5, rel=0.05)
    for posts in (2_000, 6_000, 4_000, 8_000) * 3:
        model = model.add(posts, 0.5 + posts / 10_000)
    assert model.seconds(10_000) == pytest.approx(1.5, rel=0.15)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.floats(0.1, 20))
def test_the_load_at_a_limit_equals_its_definition(spread, limit):
    whole, fraction = int(limit), limit - int(limit)
    expected = sum(n * ((1 - fraction) * min(k, whole) + fraction * min(k, whole + 1)) for k, n in enumerate(spread))
    assert load_at("consensus", spread, limit) == pytest.approx(expected)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20).filter(lambda spread: any(spread[1:])))
def test_every_level_sheds_more_and_none_sheds_everything(spread):
    levels = levels_for("subscription", spread)
    loads = [load_at("subscription", spread, levels.limit(level)) for level in range(levels.highest + 1)]
    assert loads == sorted(loads, reverse=True)
    assert 0 < loads[-1] <= sum(spread[1:]) / 2 + 1e-9, "the last level routes few posts"


def test_the_level_changes_once_per_second_and_catches_up_after_a_long_batch():
    busy = ShedController("consensus", LATENCY_S).observe_batch(5_000, 10.0, SPREAD)
    first = busy.decide(20_000, 100.0)
    assert first.state.level == first.levels.highest, "the first decision goes as far as it helps"
    known = first.decide(20_000, 100.5)
    assert known == first, "half a second later"
    calm = ShedController("consensus", LATENCY_S).observe_batch(5_000, 10.0, SPREAD).decide(0, 100.0)
    few = calm.buffer.ideal + calm.buffer.stable + 1  # about two seconds of work
    assert 1 <= calm.decide(few, 101.0).state.level <= 3
    assert calm.decide(few, 100.9) == calm
