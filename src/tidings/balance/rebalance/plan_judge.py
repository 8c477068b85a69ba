"""Judge a new plan by posts that it was not learned from, and say how far chance may be off.

A plan is as good as its busiest matcher, which limits the throughput. The posts are divided into blocks. The gain of
the new plan is computed from all blocks, and its standard error from leaving out one block at a time (jackknife).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_fit import PostSample
from tidings.balance.work_model import WorkModel, WorkSample
from tidings.balance.workload import Workload
from tidings.plan.space import SpatialPlan

BLOCKS = 20
_HELD_OUT = 3  # every third post is held out
_STANDARD_ERRORS = 2.0  # that the gain must be above the least gain


@dataclass(frozen=True, slots=True)
class PlanGain:
    """The busiest loads under two plans in nanoseconds per post, and the fraction that the new plan saves."""

    posts: int
    load: float
    new_load: float
    gain: float
    error: float  # the standard error of the gain

    def is_confirmed(self, min_gain: float) -> bool:
        """Return whether the gain is at least `min_gain` even if chance was on the side of the new plan."""
        return self.gain - _STANDARD_ERRORS * self.error >= min_gain


def split_sample(posts: PostSample) -> tuple[PostSample, PostSample]:
    """Return the posts to learn from and the held-out ones, of a sample in random order."""
    texts, positions = posts
    is_held_out = np.arange(len(texts)) % _HELD_OUT == 0
    learned, held_out = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    return (texts.take(pa.array(learned)), positions[learned]), (texts.take(pa.array(held_out)), positions[held_out])


def compare_plans(held_out: Workload, old: SpatialPlan, new: SpatialPlan) -> PlanGain:
    """Compare the busiest matchers of two plans on held-out posts."""
    posts = len(held_out.positions)
    rows = [np.arange(block, posts, BLOCKS) for block in range(min(BLOCKS, posts))]
    samples = [WorkSample.build(held_out.select_posts(block)) for block in rows]
    loads, new_loads = (np.array([sample.estimate_ns(plan, WorkModel()) for sample in samples]) for plan in (old, new))
    gain, error = estimate_gain(loads, new_loads)
    load, new_load = (float(of_blocks.sum(axis=0).max()) / posts for of_blocks in (loads, new_loads))
    return PlanGain(posts, load, new_load, gain, error)


def estimate_gain(loads: NDArray[np.float64], new_loads: NDArray[np.float64]) -> tuple[float, float]:
    """Return the gain and its standard error; both arrays have a row of loads per block of posts."""
    busiest, new_busiest = (_busiest_without(of_blocks) for of_blocks in (loads, new_loads))
    gains = 1 - new_busiest / np.maximum(busiest, 1e-9)
    blocks, without = len(loads), gains[1:]
    return float(gains[0]), float(np.sqrt((blocks - 1) / blocks * np.sum((without - without.mean()) ** 2)))


def _busiest_without(loads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the load of the busiest matcher in all blocks, then without each one."""
    total = loads.sum(axis=0)
    return np.asarray(np.concatenate([[total.max()], (total - loads).max(axis=1)]))
