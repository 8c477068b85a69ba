"""Posts whose places change, so that the loads of the matchers change: phases of batches, drawn from real posts.

`balanced` is the stationary stream for comparison. `hot spot`: in every phase a crowd somewhere else writes a part of
all posts. `day and night`: a phase per four hours of the day, from the timestamps of the posts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Rows = NDArray[np.int64]
_HOURS_PER_PHASE = 4
DrawPhase = Callable[[int, int], pa.Table]  # number of the phase, posts → posts of this phase


@dataclass(frozen=True, slots=True)
class Crowds:
    """Where the crowd of each phase is: the `size` posts next to a random post write `share` of all posts."""

    share: float = 0.5
    size: int = 500


def draw_balanced(posts: pa.Table, rng: np.random.Generator) -> DrawPhase:
    return lambda phase, count: posts.take(pa.array(rng.integers(0, len(posts), count)))


def draw_hot_spot(posts: pa.Table, rng: np.random.Generator, crowds: Crowds = Crowds()) -> DrawPhase:
    """Draw a part of the posts of each phase from a crowd at one place, the others from everywhere."""
    positions = np.column_stack([np.asarray(posts.column(name)) for name in ("lon", "lat")])
    seed = int(rng.integers(1 << 32))

    def draw(phase: int, count: int) -> pa.Table:
        center = positions[np.random.default_rng([seed, phase]).integers(0, len(positions))]
        scaled = (positions - center) * [np.cos(np.radians(center[1])), 1.0]
        crowd = np.argsort((scaled**2).sum(axis=1), kind="stable")[: crowds.size]
        rows = rng.integers(0, len(positions), count)
        is_crowd = rng.random(count) < crowds.share
        rows[is_crowd] = crowd[rng.integers(0, len(crowd), int(is_crowd.sum()))]
        return posts.take(pa.array(rows))

    return draw


def draw_day_and_night(posts: pa.Table, rng: np.random.Generator) -> DrawPhase:
    """Draw the posts of phase `n` from those written in part `n` of the day (UTC), of all days."""
    hours = pc.cast(pc.utf8_slice_codeunits(posts.column("time"), 11, 13), pa.int64()).to_numpy()
    by_part = [np.flatnonzero(hours // _HOURS_PER_PHASE == part) for part in range(24 // _HOURS_PER_PHASE)]

    def draw(phase: int, count: int) -> pa.Table:
        rows = by_part[phase % len(by_part)]
        return posts.take(pa.array(rows[rng.integers(0, len(rows), count)]))

    return draw


SCENARIOS: Mapping[str, Callable[[pa.Table, np.random.Generator], DrawPhase]] = {
    "balanced": draw_balanced,
    "hot spot": draw_hot_spot,
    "day and night": draw_day_and_night,
}
