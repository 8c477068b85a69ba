"""How much is shed: levels, a buffer of three segments, one step a second."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.stream.shed_levels import Buffer, Levels, Segment, Shedding, segment_ratio

LEVELS = Levels(most=7, step=1)
BUFFER = Buffer(ideal=100, stable=50)


def test_levels_as_the_paper_counts_them():
    assert [LEVELS.limit(level) for level in range(8)] == [math.inf, 7, 6, 5, 4, 3, 2, 1]
    assert LEVELS.highest == 7
    assert [Levels(2, 0.5).limit(level) for level in range(5)] == [math.inf, 2, 1.5, 1, 0.5]


@given(st.floats(0.5, 20), st.floats(0.05, 1))
def test_every_level_leaves_something(most, step):
    levels = Levels(most, min(step, most))
    assert 0 < levels.limit(levels.highest) <= levels.step + 1e-6


@pytest.mark.parametrize(("most", "step"), [(0, 1), (7, 0), (1, 2), (7, -1)])
def test_impossible_levels_are_refused(most, step):
    with pytest.raises(ValueError):
        Levels(most, step)


@pytest.mark.parametrize(
    ("waiting", "segment"), [(0, "ideal"), (99, "ideal"), (100, "stable"), (149, "stable"), (150, "overload")]
)
def test_the_segments_of_the_buffer(waiting, segment):
    assert BUFFER.segment(waiting) == segment


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=8), st.floats(0.1, 60), st.floats(1, 1e6))
def test_the_buffer_holds_what_the_latency_allows_and_no_level_jumps_over_the_stable_segment(parts, latency, rate):
    loads = sorted([1.0, *parts], reverse=True)
    buffer = Buffer.for_latency(latency, rate, loads)
    assert buffer.ideal + buffer.stable == pytest.approx(max(1.0, latency * rate))
    for before, after in itertools.pairwise(loads):
        assert 1 + buffer.ideal / buffer.stable > before / after  # 5.1


def test_without_measurements_the_segments_are_alike():
    assert segment_ratio([]) == segment_ratio([1.0]) == 1.0


def steps(*waiting: float, start: Shedding = Shedding()) -> list[int]:
    """The levels as the buffer goes on."""
    found, now = [], start
    for count in waiting:
        now = now.adapted(count, BUFFER, LEVELS)
        found.append(now.level)
    return found


def test_overload_raises_the_level_and_again_only_while_the_buffer_does_not_empty():
    assert steps(160, 170, 180) == [1, 2, 3]
    assert steps(160, 160) == [1, 2]
    assert steps(200, 190, 180, 185) == [1, 1, 1, 2]


def test_ideal_lowers_the_level_and_again_only_while_the_buffer_does_not_fill():
    start = Shedding(5, 120, Segment.stable)
    assert steps(90, 80, 70, start=start) == [4, 3, 2]
    assert steps(50, 60, 70, 65, start=start) == [4, 4, 4, 3]


def test_in_the_stable_segment_nothing_changes():
    assert steps(120, 149, 100, start=Shedding(3, 160, Segment.overload)) == [3, 3, 3]


def test_the_level_stays_within_its_bounds():
    assert steps(*range(200, 230))[-1] == LEVELS.highest
    assert steps(*[0] * 5) == [0] * 5


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_whatever_happens_the_level_moves_by_one_at_most(waiting):
    levels = [0, *steps(*waiting)]
    assert all(0 <= level <= LEVELS.highest for level in levels)
    assert all(abs(after - before) <= 1 for before, after in itertools.pairwise(levels))


def test_a_queue_that_gets_twice_what_it_can_take_settles_and_recovers():
    """16 K, then 32 K, then 2 K posts/s against matchers that take 20 K; each level sheds an eighth of the load."""
    loads = [1 - level / 9 for level in range(8)]
    buffer = Buffer.for_latency(5, 20_000, loads)
    waiting, now, seen = 0.0, Shedding(), []
    for second in range(900):
        arriving = 16_000 if second < 200 else 32_000 if second < 600 else 2_000
        waiting = max(0.0, waiting + arriving - 20_000 / loads[now.level])
        now = now.adapted(waiting, buffer, LEVELS)
        seen.append((now.level, waiting))
    assert max(level for level, _ in seen[:200]) == 0
    assert max(wait for _, wait in seen[300:600]) < 2 * (buffer.ideal + buffer.stable)
    assert all(level > 0 for level, _ in seen[300:600])
    assert seen[-1][0] == 0
