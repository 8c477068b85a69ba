"""How much load to shed (S³-TM 5.2.2): a level that follows the fullness of the buffer of unread posts.

The buffer has three segments. In *overload* the level rises, in *ideal* it falls, in *stable* it stays. All pure: what
is measured comes in, what is to be done goes out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Levels:
    """Level 0 sheds nothing; level 1 lets a post go to `most` matchers, each further one to `step` fewer."""

    most: float = 7.0
    step: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.step <= self.most:
            raise ValueError("a level must shed something and leave something")

    @property
    def highest(self) -> int:
        """The last level that still lets posts through."""
        return math.ceil(self.most / self.step - 1e-9)

    def limit(self, level: int) -> float:
        """To how many matchers a post may go; the fraction is the chance of one more."""
        if not 0 <= level <= self.highest:
            raise ValueError(f"there is no level {level}")
        return math.inf if level == 0 else self.most - (level - 1) * self.step


class Segment(StrEnum):
    """Where in the buffer the fullness lies."""

    ideal = "ideal"
    stable = "stable"
    overload = "overload"


@dataclass(frozen=True, slots=True)
class Buffer:
    """How many unread posts are ideal, and how many more are still stable."""

    ideal: float
    stable: float

    @classmethod
    def for_latency(cls, latency_s: float, posts_per_second: float, loads: Sequence[float]) -> Buffer:
        """As many posts as are worked off in the time accepted, divided so that one level never jumps a segment.

        `loads` are the measured loads of the levels, L(0) first: the ideal segment is to the stable one as 5.1 asks,
        1 + ideal / stable > L(l - 1) / L(l) for every level.
        """
        ratio = segment_ratio(loads)
        size = max(1.0, latency_s * posts_per_second)
        return cls(size * ratio / (1 + ratio), size / (1 + ratio))

    def segment(self, waiting: float) -> Segment:
        if waiting < self.ideal:
            return Segment.ideal
        return Segment.stable if waiting < self.ideal + self.stable else Segment.overload


_MARGIN = 1.05  # the condition is strict


def segment_ratio(loads: Sequence[float]) -> float:
    """The least ideal : stable that 5.1 allows, with a margin; 1 while nothing was measured."""
    steps = [before / after for before, after in itertools.pairwise(loads) if after > 0]
    return max(_MARGIN * max(steps) - 1, 0.05) if steps else 1.0


@dataclass(frozen=True, slots=True)
class Shedding:
    """The level, and what the buffer looked like at the last step that changed it (None before the first)."""

    level: int = 0
    changed_at: float | None = None
    segment: Segment = Segment.ideal

    def adapted(self, waiting: float, buffer: Buffer, levels: Levels) -> Shedding:
        """The next second. A level just raised rises again only if the buffer has not emptied since, and vice versa."""
        where = buffer.segment(waiting)
        same = where == self.segment
        if where == Segment.overload and self.level < levels.highest:
            helped = same and self.changed_at is not None and waiting < self.changed_at
            return Shedding(self.level + (not helped), waiting, where)
        if where == Segment.ideal and self.level > 0:
            hurt = same and self.changed_at is not None and waiting > self.changed_at
            return Shedding(self.level - (not hurt), waiting, where)
        return Shedding(self.level, waiting, where)
