"""How much to shed in the next batch of a stream: what was measured comes in, a level goes out. Pure.

A post waits for the batch before it to end, and for its own. So what is unread when a batch begins (its own posts and
those that wait) may take a little less than half of the latency that is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidings.routing.shed import Shed
from tidings.stream.shed_levels import Buffer, Levels, Shedding
from tidings.stream.throughput import Pace

STEP_S = 1.0  # the level changes about once a second, or once a batch where these are longer
_SHARE = 0.4  # of the latency, for one batch
_LEVELS = 8
_AT_RANDOM = Levels(1 - 1 / _LEVELS, 1 / _LEVELS)
_LEAST = 0.25  # matchers, that the last level leaves a post at most
_MOST = 0.95  # of the posts lead to no more matchers than level 1 allows
_NO_BATCHES = Pace()
_NOTHING_SHED = Shedding()


@dataclass(frozen=True, slots=True)
class Pressure:
    """What is known of a stream that sheds."""

    policy: str
    latency_s: float
    pace: Pace = _NO_BATCHES
    spread: tuple[int, ...] = ()  # of the last batch: how many posts lead to 0, 1, 2 … matchers
    shedding: Shedding = _NOTHING_SHED
    levels: Levels = _AT_RANDOM
    stepped_at: float = -math.inf

    def measured(self, posts: int, seconds: float, spread: Sequence[int]) -> Pressure:
        """After a batch."""
        known = replace(self, pace=self.pace.after(posts, seconds), spread=tuple(spread) if posts else self.spread)
        if known.shedding.level == 0 and any(known.spread[1:]):  # a level keeps its meaning while it holds
            known = replace(known, levels=levels_for(self.policy, known.spread))
        return known

    def decided(self, unread: float, now: float) -> Pressure:
        """Before a batch: `unread` posts have arrived, its own included. What was never measured sheds nothing."""
        passed_s = now - self.stepped_at
        if passed_s < STEP_S or not self.pace.batches or not any(self.spread[1:]):
            return self
        once = self.shedding.adapted(unread, self.buffer, self.levels)
        return replace(self, shedding=self._further(once, unread, passed_s), stepped_at=now)

    def _further(self, once: Shedding, unread: float, passed_s: float) -> Shedding:
        """A batch that took several seconds has missed as many steps, and so will the one that begins.

        They are made now, as far as the load that is to be expected at each level asks for it.
        """
        way, loads = once.level - self.shedding.level, self.loads
        a_second = self.levels.highest / _LEVELS  # many levels are small ones
        missed = min(a_second * (passed_s + self.pace.seconds(unread)) / STEP_S, self.levels.highest) - 1
        level = once.level
        while way and loads and missed >= 1 and 0 <= level + way <= self.levels.highest:
            expected = unread * loads[level] / loads[self.shedding.level]
            if self.buffer.segment(expected) != once.segment:
                break
            level, missed = level + way, missed - 1
        return replace(once, level=level)

    @property
    def buffer(self) -> Buffer:
        """What may be unread; shedding does not make a batch shorter than one without posts."""
        budget_s = max(_SHARE * self.latency_s - self.pace.base_s, self.latency_s / 8)
        return Buffer.for_latency(budget_s, 1 / self.pace.post_s, self.loads)

    @property
    def loads(self) -> list[float]:
        """L(l): to how many matchers posts go at each level, as the last batch's would have gone."""
        if not any(self.spread[1:]):
            return []
        limits = (self.levels.limit(level) for level in range(self.levels.highest + 1))
        return [load_at(self.policy, self.spread, limit) for limit in limits]

    def shed(self, seed: int) -> Shed:
        """What the next batch sheds."""
        return Shed(self.policy, self.levels.limit(self.shedding.level), seed)


def levels_for(policy: str, spread: Sequence[int]) -> Levels:
    """Eight levels or more, from one that withholds little of posts like these to one that leaves most with none."""
    if policy == "random":
        return _AT_RANDOM
    going = np.cumsum(spread[1:])
    most = int(np.searchsorted(going, _MOST * going[-1])) + 1
    return Levels(most, min(most / _LEVELS, _LEAST))


def load_at(policy: str, spread: Sequence[int], limit: float) -> float:
    """How many (post, matcher) are left of posts with this spread."""
    targets = np.arange(len(spread), dtype=np.float64)
    if math.isinf(limit):
        return float(np.dot(spread, targets))
    if policy == "random":
        return float(np.dot(spread, targets)) * limit
    whole = math.floor(limit)
    more = limit - whole
    left = (1 - more) * np.minimum(targets, whole) + more * np.minimum(targets, whole + 1)
    return float(np.dot(spread, left))
