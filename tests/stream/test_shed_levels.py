"""Load-shedding levels: a buffer of three segments, one step per second."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.stream.shed_levels import BacklogBuffer, BufferSegment, ShedLevels, ShedState, ideal_to_stable_ratio

LEVELS = ShedLevels(most=7, step=1)
BUFFER = BacklogBuffer(ideal=100, stable=50)


def test_levels_are_numbered_as_in_the_paper():
    assert [LEVELS.limit(level) for level in range(8)] == [math.inf, 7, 6, 5, 4, 3, 2, 1]
    assert LEVELS.highest == 7
    assert [ShedLevels(2, 0.5).limit(level) for level in range(5)] == [math.inf, 2, 1.5, 1, 0.5]


@given(st.floats(0.5, 20), st.floats(0.05, 1))
def test_every_level_routes_some_posts(most, step):
    levels = ShedLevels(most, min(step, most))
    assert 0 < levels.limit(levels.highest) <= levels.step + 1e-6


@pytest.mark.parametrize(("most", "step"), [(0, 1), (7, 0), (1, 2), (7, -1)])
def test_invalid_levels_are_rejected(most, step):
    with pytest.raises(ValueError):
        ShedLevels(most, step)


@pytest.mark.parametrize(
    ("backlog", "segment"), [(0, "ideal"), (99, "ideal"), (100, "stable"), (149, "stable"), (150, "overload")]
)
def test_the_buffer_has_three_segments(backlog, segment):
    assert BUFFER.segment(backlog) == segment


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=8), st.floats(0.1, 60), st.floats(1, 1e6))
def test_no_level_jumps_over_the_stable_segment(parts, latency, rate):
    loads = sorted([1.0, *parts], reverse=True)
    buffer = BacklogBuffer.for_latency(latency, rate, loads)
    assert buffer.ideal + buffer.stable == pytest.approx(max(1.0, latency * rate))
    for before, after in itertools.pairwise(loads):
        assert 1 + buffer.ideal / buffer.stable > before / after  # 5.1


def test_without_measurements_the_segments_are_equal():
    assert ideal_to_stable_ratio([]) == ideal_to_stable_ratio([1.0]) == 1.0


def steps(*backlog: float, start: ShedState = ShedState()) -> list[int]:
    """Return the levels for a sequence of backlogs."""
    levels, state = [], start
    for count in backlog:
        state = state.step(count, BUFFER, LEVELS)
        levels.append(state.level)
    return levels


def test_overload_raises_the_level_unless_the_backlog_shrinks():
    assert steps(160, 170, 180) == [1, 2, 3]
    assert steps(160, 160) == [1, 2]
    assert steps(200, 190, 180, 185) == [1, 1, 1, 2]


def test_ideal_lowers_the_level_unless_the_backlog_grows():
    start = ShedState(5, 120, BufferSegment.stable)
    assert steps(90, 80, 70, start=start) == [4, 3, 2]
    assert steps(50, 60, 70, 65, start=start) == [4, 4, 4, 3]


def test_the_stable_segment_keeps_the_level():
    assert steps(120, 149, 100, start=ShedState(3, 160, BufferSegment.overload)) == [3, 3, 3]


def test_the_level_stays_within_its_bounds():
    assert steps(*range(200, 230))[-1] == LEVELS.highest
    assert steps(*[0] * 5) == [0] * 5


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_the_level_changes_by_at_most_one_per_step(backlog):
    levels = [0, *steps(*backlog)]
    assert all(0 <= level <= LEVELS.highest for level in levels)
    assert all(abs(after - before) <= 1 for before, after in itertools.pairwise(levels))


def test_a_queue_at_twice_its_capacity_settles_and_recovers():
    """16 K, then 32 K, then 2 K posts/s with a capacity of 20 K; each level sheds a ninth of the load."""
    loads = [1 - level / 9 for level in range(8)]
    buffer = BacklogBuffer.for_latency(5, 20_000, loads)
    backlog, state, seen = 0.0, ShedState(), []
    for second in range(900):
        arriving = 16_000 if second < 200 else 32_000 if second < 600 else 2_000
        backlog = max(0.0, backlog + arriving - 20_000 / loads[state.level])
        state = state.step(backlog, buffer, LEVELS)
        seen.append((state.level, backlog))
    assert max(level for level, _ in seen[:200]) == 0
    assert max(wait for _, wait in seen[300:600]) < 2 * (buffer.ideal + buffer.stable)
    assert all(level > 0 for level, _ in seen[300:600])
    assert seen[-1][0] == 0
