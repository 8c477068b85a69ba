"""Apply the intents of a local rebalancing step to a spatial plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidings.balance.rebalance.local_policy import Intent, SplitByText
from tidings.plan.space import Area, SpatialPlan

Halves = Mapping[int, tuple[Collection[bytes], Collection[bytes]]]  # cell → the terms of its two halves


def apply_intents(plan: SpatialPlan, intents: Sequence[Intent], halves: Halves) -> SpatialPlan:
    """Return a plan in which the cells of the intents have new areas.

    Areas keep their numbers, because segments refer to them. New areas come last, but before the unlocated area.
    """
    area_of_cell = plan.area_of_cell.copy()
    areas = list(plan.areas[:-1])
    moved: dict[tuple[int, int, int], int] = {}
    for intent in intents:
        old = int(area_of_cell[intent.cell])
        if isinstance(intent, SplitByText):
            area_of_cell[intent.cell] = len(areas)
            areas.append(_build_split_area(intent, halves[intent.cell]))
            continue
        number = moved.setdefault((old, intent.source, intent.target), len(areas))
        if number == len(areas):
            areas.append(_build_moved_area(plan, old, intent.source, intent.target))
        area_of_cell[intent.cell] = number
    return replace(plan, area_of_cell=area_of_cell, areas=(*areas, plan.areas[-1]))


def _build_split_area(intent: SplitByText, halves: tuple[Collection[bytes], Collection[bytes]]) -> Area:
    """The source comes first, so it keeps the conjunctions without a term."""
    matchers = (intent.target, intent.source) if intent.half == 0 else (intent.source, intent.target)
    matcher_of_term = {term: matcher for half, matcher in zip(halves, matchers, strict=True) for term in half}
    return Area((intent.source, intent.target), matcher_of_term)


def _build_moved_area(plan: SpatialPlan, number: int, source: int, target: int) -> Area:
    """Return the area with the target in place of the source; the other matchers keep its former number."""
    area = plan.areas[number]
    matchers = tuple(target if matcher == source else matcher for matcher in area.matchers)
    if not area.is_shared:
        return Area(matchers[:1])
    matcher_of_term = {term: target if matcher == source else matcher for term, matcher in area.matcher_of_term.items()}
    return Area(matchers, matcher_of_term, int(plan.former_ids[number]))
