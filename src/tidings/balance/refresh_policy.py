"""When a plan of words is to be learned anew. Pure: measured loads and a clock come in, a reason goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tidings.balance.word_plan_metrics import Metrics

ENOUGH = 10_000  # posts: to learn a first plan from, and to judge one by


class Why(StrEnum):
    """What a plan is learned for."""

    first = "no plan was learned yet"
    asked = "it was asked for"
    schedule = "its time had come"
    worse = "the load had become more uneven, or posts went to more matchers"


@dataclass(frozen=True, slots=True)
class Rules:
    """Learn every so many seconds; and when imbalance × spread is so many times what it was. None: never."""

    every_s: float | None = None
    factor: float | None = 1.5


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """What is known of the plan in use. Its value is imbalance × spread, measured over `ENOUGH` posts at a time."""

    version: int
    is_learned: bool
    since: float  # when it was put to use
    value_at_first: float | None = None
    value: float | None = None
    posts: int = 0  # measured since the value was
    loads: tuple[int, ...] = ()

    def measured(self, posts: int, loads: Sequence[int]) -> PlanHistory:
        """After a batch: so many posts, and how many of them were for each matcher, those withheld included."""
        before = self.loads or (0,) * len(loads)
        so_far = Metrics(self.posts + posts, tuple(a + b for a, b in zip(before, loads, strict=True)))
        if so_far.posts < ENOUGH:
            return replace(self, posts=so_far.posts, loads=so_far.loads)
        value = so_far.imbalance * so_far.spread
        first = value if self.value_at_first is None else self.value_at_first
        return replace(self, value=value, value_at_first=first, posts=0, loads=())

    def due(self, rules: Rules, now: float, asked: bool, sample: int) -> Why | None:
        """Why to learn now, from a sample of so many posts; None where there is no reason or nothing to learn from."""
        if sample == 0:
            return None
        if asked:
            return Why.asked
        if not self.is_learned:
            return Why.first if sample >= ENOUGH else None
        if rules.every_s is not None and now - self.since >= rules.every_s:
            return Why.schedule
        is_worse = rules.factor is not None and self._worsened >= rules.factor
        return Why.worse if is_worse else None

    @property
    def _worsened(self) -> float:
        return self.value / self.value_at_first if self.value and self.value_at_first else 1.0
