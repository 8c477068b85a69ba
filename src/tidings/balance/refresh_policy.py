"""Decide when to refresh a word plan. Pure: measured loads and the time come in, a reason goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tidings.balance.word_plan_metrics import WordPlanMetrics

MIN_POSTS = 10_000  # to learn a plan from, and to measure the value of a plan


class RefreshReason(StrEnum):
    """Why a plan is learned."""

    first = "no plan was learned yet"
    requested = "requested"
    schedule = "scheduled"
    degraded = "loads became less even, or posts were routed to more matchers"


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """Refresh every `interval_s`, and when imbalance × spread has grown by `factor`. None disables a rule.

    A plan is learned from at least `min_posts` sampled posts, whatever the reason is.
    """

    interval_s: float | None = None
    factor: float | None = 1.5
    min_posts: int = MIN_POSTS


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """Measurements of the plan in use. Its value is imbalance × spread, measured over `MIN_POSTS` posts each time."""

    version: int
    is_learned: bool
    since: float  # when it came into use, or when a new plan was not better
    first_value: float | None = None
    value: float | None = None
    posts: int = 0  # since the value was measured
    loads: tuple[int, ...] = ()

    def add_batch(self, posts: int, loads: Sequence[int]) -> PlanHistory:
        """Return the history with the posts of a batch and their number per matcher, shed ones included."""
        before = self.loads or (0,) * len(loads)
        metrics = WordPlanMetrics(self.posts + posts, tuple(a + b for a, b in zip(before, loads, strict=True)))
        if metrics.posts < MIN_POSTS:
            return replace(self, posts=metrics.posts, loads=metrics.loads)
        value = metrics.imbalance * metrics.spread
        first = value if self.first_value is None else self.first_value
        return replace(self, value=value, first_value=first, posts=0, loads=())

    def reason_to_refresh(
        self, policy: RefreshPolicy, now: float, is_requested: bool, sample: int
    ) -> RefreshReason | None:
        """Return why to learn a plan now from `sample` posts; None without a reason or with too few posts."""
        if sample < policy.min_posts:
            return None
        if is_requested:
            return RefreshReason.requested
        if not self.is_learned:
            return RefreshReason.first
        if policy.interval_s is not None and now - self.since >= policy.interval_s:
            return RefreshReason.schedule
        is_worse = policy.factor is not None and self._degradation >= policy.factor
        return RefreshReason.degraded if is_worse else None

    def keep_plan(self, now: float) -> PlanHistory:
        """Return the history after a new plan was not better: schedule and degradation start again from here."""
        return replace(self, since=now, first_value=self.first_value if self.value is None else self.value)

    @property
    def _degradation(self) -> float:
        return self.value / self.first_value if self.value and self.first_value else 1.0
