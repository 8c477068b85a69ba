"""The global rebalancing step (PS²Stream, V-B): decide when to learn a new plan and whether to adopt it.

New subscriptions follow an adopted plan immediately. Old ones stay where they are until few are left; then these move
too. The functions are pure: state and time come in, the next step comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """How often to evaluate a new plan, and when to adopt it and to finish its adoption."""

    interval_s: float = 86_400.0
    min_gain: float = 0.1  # fraction of the busiest load that a new plan must save
    max_old_share: float = 0.1  # fraction of subscriptions under the old plan below which they move


@dataclass(frozen=True, slots=True)
class GlobalState:
    """When a plan was last evaluated, whether two plans are in use, and the subscriptions under each."""

    evaluated_at: float = float("-inf")
    has_two_plans: bool = False
    old: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class EvaluatePlan:
    """Learn a plan from a recent sample and measure the cost of both plans."""


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    """From now on new subscriptions follow the new plan; posts are routed by both plans."""


@dataclass(frozen=True, slots=True)
class FinishMigration:
    """Move the remaining old subscriptions and drop the old plan."""

    subscriptions: int


def next_step(state: GlobalState, now: float, settings: GlobalSettings) -> EvaluatePlan | FinishMigration | None:
    """Return what to do at this time."""
    if state.has_two_plans:
        is_few = state.old <= settings.max_old_share * (state.old + state.new)
        return FinishMigration(state.old) if is_few else None
    return EvaluatePlan() if now - state.evaluated_at >= settings.interval_s else None


def after_evaluation(
    state: GlobalState, now: float, load: float, new_load: float, subscriptions: int, settings: GlobalSettings
) -> tuple[GlobalState, AdoptPlan | None]:
    """Decide by the busiest loads under the current and the new plan, on the same sample."""
    evaluated = replace(state, evaluated_at=now)
    if new_load > (1 - settings.min_gain) * load:
        return evaluated, None
    return replace(evaluated, has_two_plans=True, old=subscriptions, new=0), AdoptPlan()


def count_changes(state: GlobalState, added: int, old_removed: int, new_removed: int) -> GlobalState:
    """Return the state after subscriptions were added and removed while two plans are in use."""
    return replace(state, old=state.old - old_removed, new=state.new + added - new_removed)


def finish_migration(state: GlobalState) -> GlobalState:
    """Return the state with only one plan in use."""
    return replace(state, has_two_plans=False, old=0, new=0)
