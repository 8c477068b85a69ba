"""The global rebalancing step (PS²Stream, V-B): decide when to learn a new plan, and how its adoption goes on.

New subscriptions follow an adopted plan immediately. Old ones move to it in slices, so that the time with two plans is
short however long subscriptions live. The functions are pure: state and time come in, the next step comes out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidings.balance.refresh_policy import MIN_POSTS


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """How often to evaluate a new plan, when to adopt it, and in how many slices old subscriptions move to it."""

    interval_s: float = 86_400.0
    min_posts: int = MIN_POSTS  # that a plan is learned from and judged on
    min_gain: float = 0.1  # fraction of the busiest load that a new plan must save, confirmed by held-out posts
    max_slices: int = 20
    min_slice: int = 100_000  # subscriptions: more slices would write more files in all


@dataclass(frozen=True, slots=True)
class GlobalState:
    """When a plan was last evaluated, the sampled posts, the subscriptions, and whether two plans are in use."""

    evaluated_at: float = float("-inf")
    posts: int = 0
    subscriptions: int = 0
    has_two_plans: bool = False


@dataclass(frozen=True, slots=True)
class EvaluatePlan:
    """Learn a plan from a recent sample and judge it."""


@dataclass(frozen=True, slots=True)
class MoveSlice:
    """Place some old subscriptions by the current plan. The previous plan ends with the last one."""

    max_subscriptions: int


GlobalStep = EvaluatePlan | MoveSlice


def next_step(state: GlobalState, now: float, settings: GlobalSettings) -> GlobalStep | None:
    """Return what to do at this time."""
    if state.has_two_plans:
        return MoveSlice(max(settings.min_slice, -(-state.subscriptions // settings.max_slices)))
    is_due = now - state.evaluated_at >= settings.interval_s and state.posts >= settings.min_posts
    return EvaluatePlan() if is_due else None
