"""Control how much the next batch sheds: measurements in, a level out. Pure.

A post waits for the batch before its own and for its own batch. So the backlog at the start of a batch (its posts and
those after it) may take a little less than half of the accepted latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidings.routing.shed import ShedDecision
from tidings.stream.shed_levels import BacklogBuffer, ShedLevels, ShedState
from tidings.stream.throughput import ThroughputModel

STEP_S = 1.0  # the level changes about once per second, or once per batch if batches are longer
_BATCH_LATENCY_SHARE = 0.4
_MIN_LEVELS = 8
_RANDOM_LEVELS = ShedLevels(1 - 1 / _MIN_LEVELS, 1 / _MIN_LEVELS)
_MAX_LEVEL_STEP = 0.25  # matchers: so the last level routes a post to at most this many
_LEVEL_1_QUANTILE = 0.95  # of the posts are routed to no more matchers than level 1 allows
_NO_BATCHES = ThroughputModel()
_NOTHING_SHED = ShedState()


@dataclass(frozen=True, slots=True)
class ShedController:
    """What was measured of a stream that sheds, and its level."""

    policy: str
    latency_s: float
    throughput: ThroughputModel = _NO_BATCHES
    spread: tuple[int, ...] = ()  # of the last batch: how many posts are routed to 0, 1, 2 … matchers
    state: ShedState = _NOTHING_SHED
    levels: ShedLevels = _RANDOM_LEVELS
    stepped_at: float = -math.inf

    def observe_batch(self, posts: int, seconds: float, spread: Sequence[int]) -> ShedController:
        """Return the controller after a batch."""
        controller = replace(
            self, throughput=self.throughput.add(posts, seconds), spread=tuple(spread) if posts else self.spread
        )
        if controller.state.level == 0 and any(controller.spread[1:]):  # a level in use keeps its meaning
            controller = replace(controller, levels=levels_for(self.policy, controller.spread))
        return controller

    def decide(self, backlog: float, now: float) -> ShedController:
        """Return the controller for a new batch; `backlog` includes its posts. Sheds nothing without measurements."""
        passed_s = now - self.stepped_at
        if passed_s < STEP_S or not self.throughput.batches or not any(self.spread[1:]):
            return self
        next_state = self.state.step(backlog, self.buffer, self.levels)
        return replace(self, state=self._catch_up(next_state, backlog, passed_s), stepped_at=now)

    def _catch_up(self, next_state: ShedState, backlog: float, passed_s: float) -> ShedState:
        """Make the steps that a batch of several seconds has missed, and those that the next one will miss.

        Stops at the level whose expected load is in another segment of the buffer.
        """
        direction, loads = next_state.level - self.state.level, self.loads
        steps_per_second = self.levels.highest / _MIN_LEVELS  # many levels are small levels
        steps = steps_per_second * (passed_s + self.throughput.seconds(backlog)) / STEP_S
        missed = min(steps, self.levels.highest) - 1
        level = next_state.level
        while direction and loads and missed >= 1 and 0 <= level + direction <= self.levels.highest:
            expected = backlog * loads[level] / loads[self.state.level]
            if self.buffer.segment(expected) != next_state.segment:
                break
            level, missed = level + direction, missed - 1
        return replace(next_state, level=level)

    @property
    def buffer(self) -> BacklogBuffer:
        """The accepted backlog. Shedding cannot make a batch shorter than an empty one."""
        budget_s = max(_BATCH_LATENCY_SHARE * self.latency_s - self.throughput.base_s, self.latency_s / 8)
        return BacklogBuffer.for_latency(budget_s, 1 / self.throughput.post_s, self.loads)

    @property
    def loads(self) -> list[float]:
        """L(l): (post, matcher) pairs of the last batch at each level."""
        if not any(self.spread[1:]):
            return []
        limits = (self.levels.limit(level) for level in range(self.levels.highest + 1))
        return [load_at(self.policy, self.spread, limit) for limit in limits]

    def decision(self, seed: int) -> ShedDecision:
        """Return what the next batch sheds."""
        return ShedDecision(self.policy, self.levels.limit(self.state.level), seed)


def levels_for(policy: str, spread: Sequence[int]) -> ShedLevels:
    """Return at least eight levels for posts with this spread, from little shedding to almost everything."""
    if policy == "random":
        return _RANDOM_LEVELS
    routed = np.cumsum(spread[1:])
    most = int(np.searchsorted(routed, _LEVEL_1_QUANTILE * routed[-1])) + 1
    return ShedLevels(most, min(most / _MIN_LEVELS, _MAX_LEVEL_STEP))


def load_at(policy: str, spread: Sequence[int], limit: float) -> float:
    """Return how many (post, matcher) pairs are left of posts with this spread."""
    matchers = np.arange(len(spread), dtype=np.float64)
    if math.isinf(limit):
        return float(np.dot(spread, matchers))
    if policy == "random":
        return float(np.dot(spread, matchers)) * limit
    whole = math.floor(limit)
    fraction = limit - whole
    left = (1 - fraction) * np.minimum(matchers, whole) + fraction * np.minimum(matchers, whole + 1)
    return float(np.dot(spread, left))
