"""Global adjustment (PS²Stream, V-B): now and then a new plan is learned from recent posts; if it pays, it takes over.

New subscriptions follow the new plan at once, old ones stay where they are until few are left; then these move too.
The decider holds what it knows and is told the time, so that any clock will do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class OverallSettings:
    """How often to look, by how much of the load a new plan must pay, and how few old subscriptions may be moved."""

    every_seconds: float = 86_400.0
    least_gain: float = 0.1
    few: float = 0.1


@dataclass(frozen=True, slots=True)
class OverallState:
    """When a look was last taken; whether two plans live side by side, and how many subscriptions each has."""

    looked_at: float = float("-inf")
    is_double: bool = False
    old: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """Learn a plan from a recent sample and measure what both would cost."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """From now on new subscriptions follow the new plan; posts are routed by both."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Move the old subscriptions that are left, and forget the old plan."""

    subscriptions: int


def next_step(state: OverallState, now: float, settings: OverallSettings) -> Look | Finish | None:
    """What to do at this time."""
    if state.is_double:
        is_few = state.old <= settings.few * (state.old + state.new)
        return Finish(state.old) if is_few else None
    return Look() if now - state.looked_at >= settings.every_seconds else None


def after_look(
    state: OverallState, now: float, load: float, new_load: float, subscriptions: int, settings: OverallSettings
) -> tuple[OverallState, TakeOver | None]:
    """What follows from a look: the loads by the plan in use and by a new one, on the same sample."""
    looked = replace(state, looked_at=now)
    if new_load > (1 - settings.least_gain) * load:
        return looked, None
    return replace(looked, is_double=True, old=subscriptions, new=0), TakeOver()


def changed(state: OverallState, added: int, old_removed: int, new_removed: int) -> OverallState:
    """Subscriptions came and went while two plans live side by side."""
    return replace(state, old=state.old - old_removed, new=state.new + added - new_removed)


def finished(state: OverallState) -> OverallState:
    """One plan again."""
    return replace(state, is_double=False, old=0, new=0)
