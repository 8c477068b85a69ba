"""The global rebalancing step (PS²Stream, V-B): decide when to learn a new plan and whether to adopt it.

New subscriptions follow an adopted plan immediately. Old ones stay where they are until few are left; then these move
too. The functions are pure: state and time come in, the next step comes out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidings.balance.refresh_policy import MIN_POSTS


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """How often to evaluate a new plan, and when to adopt it and to finish its adoption."""

    interval_s: float = 86_400.0
    min_posts: int = MIN_POSTS  # that a plan is learned from and judged on
    min_gain: float = 0.1  # fraction of the busiest load that a new plan must save, confirmed by held-out posts
    max_old_share: float = 0.1  # fraction of subscriptions under the old plan below which they move


@dataclass(frozen=True, slots=True)
class GlobalState:
    """When a plan was last evaluated, the sampled posts, and the subscriptions under each plan if there are two."""

    evaluated_at: float = float("-inf")
    posts: int = 0
    has_two_plans: bool = False
    old: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class EvaluatePlan:
    """Learn a plan from a recent sample and measure the cost of both plans."""


@dataclass(frozen=True, slots=True)
class FinishMigration:
    """Move the remaining old subscriptions and drop the old plan."""

    subscriptions: int


GlobalStep = EvaluatePlan | FinishMigration


def next_step(state: GlobalState, now: float, settings: GlobalSettings) -> GlobalStep | None:
    """Return what to do at this time."""
    if state.has_two_plans:
        is_few = state.old <= settings.max_old_share * (state.old + state.new)
        return FinishMigration(state.old) if is_few else None
    is_due = now - state.evaluated_at >= settings.interval_s and state.posts >= settings.min_posts
    return EvaluatePlan() if is_due else None
