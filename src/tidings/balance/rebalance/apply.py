"""Apply the intents of a local rebalancing step to a spatial plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidings.balance.rebalance.local_policy import Intent, SplitByText
from tidings.plan.space import Area, SpatialPlan


def apply_intents(plan: SpatialPlan, intents: Sequence[Intent]) -> SpatialPlan:
    """Return a plan in which the cells of the intents have new areas.

    Areas keep their numbers, because segments refer to them. New areas come last, but before the unlocated area.
    """
    by_cell: dict[int, list[Intent]] = {}
    for intent in intents:
        by_cell.setdefault(intent.cell, []).append(intent)
    area_of_cell = plan.area_of_cell.copy()
    areas, unlocated = list(plan.areas[:-1]), plan.areas[-1]
    made: dict[tuple[object, ...], int] = {}
    for cell, changes in by_cell.items():
        if cell == len(area_of_cell):
            unlocated = _change_area(unlocated, changes)
            continue
        old = int(area_of_cell[cell])
        key = (old, *(replace(change, cell=0, size_bytes=0) for change in changes))
        number = made.setdefault(key, len(areas))
        if number == len(areas):
            areas.append(_change_area(plan.areas[old], changes))
        area_of_cell[cell] = number
    return replace(plan, area_of_cell=area_of_cell.astype(np.uint32), areas=(*areas, unlocated))


def _change_area(area: Area, intents: Sequence[Intent]) -> Area:
    """Return a new area with the changes, in this order. Terms that no change names stay where they are."""
    matchers, matcher_of_term = area.matchers, dict(area.matcher_of_term)
    for intent in intents:
        if isinstance(intent, SplitByText):
            matcher_of_term |= dict.fromkeys(intent.terms, intent.target)
            continue
        moved = {intent.source: intent.target}
        matchers = tuple(moved.get(matcher, matcher) for matcher in matchers)
        matcher_of_term = {term: moved.get(matcher, matcher) for term, matcher in matcher_of_term.items()}
    changed = Area(matchers, matcher_of_term)
    return changed if changed.is_shared else Area(matchers[:1])
