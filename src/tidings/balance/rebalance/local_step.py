"""Local adjustment from beginning to end: what was measured in, the index with another plan out, if that is better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.balance.rebalance.apply import applied
from tidings.balance.rebalance.cell_load import Recent, cell_loads, held_by, with_work
from tidings.balance.rebalance.local_policy import (
    CellLoad,
    Intent,
    Join,
    LocalSettings,
    SplitByText,
    decide,
    is_worth_it,
)
from tidings.balance.spatial_fit import Located
from tidings.index.builder import Prepared
from tidings.index.migrate import prepare_moved
from tidings.index.reader import Index
from tidings.index.spatial_shards import space_plan
from tidings.plan.space import SpacePlan

MOST_TEXT_AREAS = 16  # for each worker: a router has a row of all words for each


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A version made ready, and what it moves: how many cells, how many bytes of subscriptions, from whom to whom."""

    prepared: Prepared
    giver: int
    taker: int
    moved: int
    split: int
    joined: int
    size_bytes: int
    ratio: float  # of the largest load to the smallest, before

    def __str__(self) -> str:
        what = [(self.moved, "given away"), (self.split, "split by words"), (self.joined, "joined")]
        done = ", ".join(f"{count} {how}" for count, how in what if count)
        high = "all the load" if np.isinf(self.ratio) else f"{self.ratio:.1f} times the load"
        return f"matcher {self.giver} had {high} of matcher {self.taker}; of its cells {done}"


def rebalanced(
    index: Index, cells: NDArray[np.int64], by_cell: NDArray[np.int64], recent: Located, settings: LocalSettings
) -> Rebalanced | None:
    """None where the loads are balanced, or nothing would make them more so."""
    assert index.manifest.plan is not None
    plan = space_plan(index.folder / index.manifest.plan.space)
    held = held_by(index, plan)
    known = Recent.of(index, plan, recent)
    workers = with_work(cell_loads(held, plan, cells, by_cell), held, known, settings.work)
    loads = [sum(cell.load for cell in own) for own in workers]
    giver, taker = int(np.argmax(loads)), int(np.argmin(loads))
    if not is_worth_it(loads, settings):
        return None
    halves: dict[int, tuple[list[bytes], list[bytes]]] = {}
    heaviest = sorted(workers[giver], key=lambda cell: (-cell.load, cell.cell))
    closer: list[CellLoad] = []
    for cell in heaviest[: settings.cells]:
        if cell.is_text:
            closer.append(known.joined(cell, held[giver], held[taker]))
        elif _may_split(plan):
            looked_at, halves[cell.cell] = known.halves(cell, held[giver])
            closer.append(looked_at)
        else:
            closer.append(cell)
    workers[giver] = [*closer, *heaviest[settings.cells :]]
    intents = decide(workers, settings)
    if not intents:
        return None
    prepared = prepare_moved(index, applied(plan, intents, halves), {giver, taker})
    ratio = loads[giver] / loads[taker] if loads[taker] else float("inf")
    return Rebalanced(prepared, giver, taker, *_kinds(intents), sum(one.size_bytes for one in intents), ratio)


def _may_split(plan: SpacePlan) -> bool:
    shared = sum(plan.areas[number].is_shared for number in np.unique(plan.area_of_cell).tolist())
    return bool(shared < MOST_TEXT_AREAS * plan.workers)


def _kinds(intents: list[Intent]) -> tuple[int, int, int]:
    split = sum(isinstance(one, SplitByText) for one in intents)
    joined = sum(isinstance(one, Join) for one in intents)
    return len(intents) - split - joined, split, joined
