"""What was decided about cells, carried out on the plan: a new plan, in which some cells have another area."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidings.balance.rebalance.local_policy import Intent, SplitByText
from tidings.plan.space import Area, SpacePlan

Halves = Mapping[int, tuple[Collection[bytes], Collection[bytes]]]  # the words of each half of a cell


def applied(plan: SpacePlan, intents: Sequence[Intent], halves: Halves) -> SpacePlan:
    """Areas keep their numbers, as segments name them; new ones come behind them, before what has no place."""
    area_of_cell = plan.area_of_cell.copy()
    areas = list(plan.areas[:-1])
    given: dict[tuple[int, int, int], int] = {}
    for intent in intents:
        old = int(area_of_cell[intent.cell])
        if isinstance(intent, SplitByText):
            area_of_cell[intent.cell] = len(areas)
            areas.append(_split(intent, halves[intent.cell]))
            continue
        number = given.setdefault((old, intent.giver, intent.taker), len(areas))
        if number == len(areas):
            areas.append(_given(plan, old, intent.giver, intent.taker))
        area_of_cell[intent.cell] = number
    return replace(plan, area_of_cell=area_of_cell, areas=(*areas, plan.areas[-1]))


def _split(intent: SplitByText, halves: tuple[Collection[bytes], Collection[bytes]]) -> Area:
    """The giver comes first: what asks for no word stays with it."""
    owners = (intent.taker, intent.giver) if intent.half == 0 else (intent.giver, intent.taker)
    words = {word: worker for half, worker in zip(halves, owners, strict=True) for word in half}
    return Area((intent.giver, intent.taker), words)


def _given(plan: SpacePlan, number: int, giver: int, taker: int) -> Area:
    """The same area, with the taker in the giver's place; others that share it know it as they did."""
    area = plan.areas[number]
    workers = tuple(taker if worker == giver else worker for worker in area.workers)
    if not area.is_shared:
        return Area(workers[:1])
    words = {word: taker if worker == giver else worker for word, worker in area.words.items()}
    return Area(workers, words, int(plan.names[number]))
