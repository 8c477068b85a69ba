"""How much load to shed (S³-TM 5.2.2): a level that follows the backlog. Pure functions of what was measured.

The backlog buffer has three segments: in *overload* the level rises, in *ideal* it falls, in *stable* it stays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_RATIO_MARGIN = 1.05  # the condition of 5.1 is strict


@dataclass(frozen=True, slots=True)
class ShedLevels:
    """Level 0 sheds nothing; level 1 routes a post to at most `most` matchers, every further level to `step` fewer."""

    most: float = 7.0
    step: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.step <= self.most:
            raise ValueError(f"ShedLevels: step {self.step} must be above 0 and at most {self.most}.")

    @property
    def highest(self) -> int:
        """The last level that still routes posts."""
        return math.ceil(self.most / self.step - 1e-9)

    def limit(self, level: int) -> float:
        """Return the matchers that a post may be routed to; a fraction is the probability of one more."""
        if not 0 <= level <= self.highest:
            raise ValueError(f"Shed level {level}: must be between 0 and {self.highest}.")
        return math.inf if level == 0 else self.most - (level - 1) * self.step


class BufferSegment(StrEnum):
    """A segment of the backlog buffer."""

    ideal = "ideal"
    stable = "stable"
    overload = "overload"


@dataclass(frozen=True, slots=True)
class BacklogBuffer:
    """Sizes of the ideal segment and of the stable segment above it, in posts."""

    ideal: float
    stable: float

    @classmethod
    def for_latency(cls, latency_s: float, posts_per_second: float, loads: Sequence[float]) -> BacklogBuffer:
        """Return a buffer of the posts that are processed within the latency.

        `loads` are the measured loads of the levels, L(0) first. One level must not jump over the stable segment, so
        5.1 requires 1 + ideal / stable > L(l - 1) / L(l) for every level.
        """
        ratio = ideal_to_stable_ratio(loads)
        size = max(1.0, latency_s * posts_per_second)
        return cls(size * ratio / (1 + ratio), size / (1 + ratio))

    def segment(self, backlog: float) -> BufferSegment:
        if backlog < self.ideal:
            return BufferSegment.ideal
        return BufferSegment.stable if backlog < self.ideal + self.stable else BufferSegment.overload


def ideal_to_stable_ratio(loads: Sequence[float]) -> float:
    """Return the smallest ratio that 5.1 allows, with a margin; 1 without measurements."""
    steps = [before / after for before, after in itertools.pairwise(loads) if after > 0]
    return max(_RATIO_MARGIN * max(steps) - 1, 0.05) if steps else 1.0


@dataclass(frozen=True, slots=True)
class ShedState:
    """The level, and the backlog at the last step (None before the first)."""

    level: int = 0
    last_backlog: float | None = None
    segment: BufferSegment = BufferSegment.ideal

    def step(self, backlog: float, buffer: BacklogBuffer, levels: ShedLevels) -> ShedState:
        """Return the state after one step. A level rises again only if the backlog did not shrink, and vice versa."""
        segment = buffer.segment(backlog)
        is_same = segment == self.segment
        if segment == BufferSegment.overload and self.level < levels.highest:
            is_shrinking = is_same and self.last_backlog is not None and backlog < self.last_backlog
            return ShedState(self.level + (not is_shrinking), backlog, segment)
        if segment == BufferSegment.ideal and self.level > 0:
            is_growing = is_same and self.last_backlog is not None and backlog > self.last_backlog
            return ShedState(self.level - (not is_growing), backlog, segment)
        return ShedState(self.level, backlog, segment)
