"""How much a stream sheds: as little as keeps posts within the latency accepted, whatever comes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.stream.shed_controller import Pressure, levels_for, load_at
from tidings.stream.throughput import Pace

SPREAD = [0, 10, 20, 40, 20, 10]  # a hundred posts, most of which lead to three matchers
LATENCY_S = 5.0
BASE_S, SENT_S = 0.3, 0.001  # what a batch takes, and every post for every matcher it goes to


def load(policy: str, limit: float) -> float:
    """(post, matcher) a post, on average."""
    return load_at(policy, SPREAD, limit) / sum(SPREAD)


class Stream:
    """A stream on a clock of its own: batches take what is waiting, a thousand a second of latency at most."""

    def __init__(self, policy: str) -> None:
        self.pressure, self.policy, self.now = Pressure(policy, LATENCY_S), policy, 0.0
        self.lags: list[tuple[float, float]] = []  # when a post arrived, and how late its match was
        self.levels: list[int] = []

    def run(self, rate: float, seconds: float) -> Stream:
        """Posts arrive one by one, and what is there is taken."""
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
            self.pressure = self.pressure.decided(len(waiting), self.now)
        limit = self.pressure.shed(0).limit if self.policy != "off" else math.inf
        took = BASE_S + SENT_S * load(self.policy, limit) * len(taken)
        self.now += took
        self.lags += [(arrived, self.now - arrived) for arrived in taken]
        self.levels.append(self.pressure.shedding.level)
        self.pressure = self.pressure.measured(len(taken), took, [n * len(taken) // 100 for n in SPREAD])
        del waiting[: len(taken)]


@pytest.mark.parametrize("policy", ["consensus", "subscription", "random"])
def test_at_twice_what_can_be_worked_off_matches_come_in_time_and_off_they_do_not(policy):
    rate = 2 / (SENT_S * load(policy, math.inf))
    off = Stream("off").run(rate, 60)
    shedding = Stream(policy).run(rate, 60)
    late = [lag for arrived, lag in shedding.lags if arrived > 15]
    assert max(lag for _, lag in off.lags) > 5 * LATENCY_S
    assert np.quantile(late, 0.99) < LATENCY_S
    assert max(lag for _, lag in shedding.lags) < 2 * LATENCY_S, "also while it finds its level"


@pytest.mark.parametrize("policy", ["consensus", "subscription", "random"])
def test_when_there_is_no_hurry_nothing_is_shed_and_after_a_burst_it_is_soon_so_again(policy):
    easy = 0.5 / (SENT_S * load(policy, math.inf))
    stream = Stream(policy).run(easy, 30)
    assert set(stream.levels) == {0}
    stream.run(4 * easy, 20)
    assert max(stream.levels) > 0
    stream.levels.clear()
    stream.run(easy, 60)
    assert stream.levels[-1] == 0


def test_a_stream_of_few_posts_is_not_thought_slow():
    pace = Pace()
    for _ in range(20):
        pace = pace.after(3, 0.6)
    assert 1 / pace.post_s > 1_000


def test_the_pace_is_that_of_the_last_batches():
    pace = Pace()
    for posts in (2_000, 6_000, 4_000, 8_000) * 5:
        pace = pace.after(posts, 0.5 + posts / 2_000)
    assert pace.seconds(10_000) == pytest.approx(5.5, rel=0.05)
    for posts in (2_000, 6_000, 4_000, 8_000) * 3:
        pace = pace.after(posts, 0.5 + posts / 10_000)
    assert pace.seconds(10_000) == pytest.approx(1.5, rel=0.15)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.floats(0.1, 20))
def test_the_load_at_a_limit_is_what_the_definition_says(spread, limit):
    whole, more = int(limit), limit - int(limit)
    wanted = sum(n * ((1 - more) * min(k, whole) + more * min(k, whole + 1)) for k, n in enumerate(spread))
    assert load_at("consensus", spread, limit) == pytest.approx(wanted)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20).filter(lambda spread: any(spread[1:])))
def test_every_level_sheds_more_than_the_one_before_and_none_everything(spread):
    levels = levels_for("subscription", spread)
    loads = [load_at("subscription", spread, levels.limit(level)) for level in range(levels.highest + 1)]
    assert loads == sorted(loads, reverse=True)
    assert 0 < loads[-1] <= sum(spread[1:]) / 2 + 1e-9, "few go anywhere at the last one"


def test_the_level_waits_a_second_and_a_long_batch_makes_up_for_the_steps_it_missed():
    busy = Pressure("consensus", LATENCY_S).measured(5_000, 10.0, SPREAD)
    first = busy.decided(20_000, 100.0)
    assert first.shedding.level == first.levels.highest, "nothing was ever decided: as far as it helps"
    known = first.decided(20_000, 100.5)
    assert known == first, "half a second later nothing changes"
    calm = Pressure("consensus", LATENCY_S).measured(5_000, 10.0, SPREAD).decided(0, 100.0)
    few = calm.buffer.ideal + calm.buffer.stable + 1  # about two seconds of work
    assert 1 <= calm.decided(few, 101.0).shedding.level <= 3
    assert calm.decided(few, 100.9) == calm
