"""Run the local rebalancing step: measure the cells, decide, and prepare an index with a better plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.balance.rebalance.apply import apply_intents
from tidings.balance.rebalance.cell_load import RecentCells, ShardSample, add_work, measure_cells, sample_shards
from tidings.balance.rebalance.local_policy import (
    CellLoad,
    Intent,
    Join,
    LocalSettings,
    SplitByText,
    decide,
    is_worth_rebalancing,
)
from tidings.balance.spatial_fit import PostSample
from tidings.index.builder import UnpublishedVersion
from tidings.index.migrate import prepare_migration
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.plan.space import SpatialPlan

MAX_SHARED_AREAS_PER_MATCHER = 16  # a router has a row with all terms for each shared area

_Halves = dict[int, tuple[list[bytes], list[bytes]]]  # cell → the terms of its two halves


@dataclass(frozen=True, slots=True)
class LocalRebalancing:
    """A prepared version, the matchers that give and take cells, and how many cells and bytes move."""

    prepared: UnpublishedVersion
    source: int
    target: int
    moved: int
    split: int
    joined: int
    size_bytes: int
    ratio: float  # of the largest load to the smallest, before the step

    def __str__(self) -> str:
        counts = [(self.moved, "moved"), (self.split, "split by term"), (self.joined, "joined")]
        changes = ", ".join(f"{count} {change}" for count, change in counts if count)
        other = f"matcher {self.target}"
        ratio = f"load, {other} none" if np.isinf(self.ratio) else f"{self.ratio:.1f} times the load of {other}"
        return f"matcher {self.source} had {ratio}; cells: {changes}"


def prepare_rebalancing(
    index: Index, cells: NDArray[np.int64], by_cell: NDArray[np.int64], recent: PostSample, settings: LocalSettings
) -> LocalRebalancing | None:
    """Prepare a version with more even loads. None if the loads are balanced or no step would improve them.

    `cells` and `by_cell` are measured by `RoutingStats`.
    """
    assert index.manifest.plan is not None
    plan = cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)
    shards = sample_shards(index, plan)
    recent_cells = RecentCells.build(index, plan, recent)
    matchers = add_work(measure_cells(shards, plan, cells, by_cell), shards, recent_cells, settings.work)
    loads = [sum(cell.load for cell in matcher_cells) for matcher_cells in matchers]
    source, target = int(np.argmax(loads)), int(np.argmin(loads))
    if not is_worth_rebalancing(loads, settings):
        return None
    matchers[source], halves = _examine_heaviest(
        matchers[source], plan, recent_cells, shards[source], shards[target], settings.top_cells
    )
    intents = decide(matchers, settings)
    if not intents:
        return None
    prepared = prepare_migration(index, apply_intents(plan, intents, halves), {source, target})
    ratio = loads[source] / loads[target] if loads[target] else float("inf")
    size_bytes = sum(intent.size_bytes for intent in intents)
    return LocalRebalancing(prepared, source, target, *_count_kinds(intents), size_bytes, ratio)


def _examine_heaviest(
    cells: list[CellLoad], plan: SpatialPlan, recent: RecentCells, source: ShardSample, target: ShardSample, top: int
) -> tuple[list[CellLoad], _Halves]:
    """Estimate for the heaviest cells what a join or a split would do. Return all cells, and the terms of halves."""
    heaviest = sorted(cells, key=lambda cell: (-cell.load, cell.cell))
    halves: _Halves = {}
    examined: list[CellLoad] = []
    may_split = _may_split(plan)
    for cell in heaviest[:top]:
        if cell.is_text:
            examined.append(recent.estimate_join(cell, source, target))
        elif may_split:
            with_halves, halves[cell.cell] = recent.split_terms(cell, source)
            examined.append(with_halves)
        else:
            examined.append(cell)
    return [*examined, *heaviest[top:]], halves


def _may_split(plan: SpatialPlan) -> bool:
    shared = sum(plan.areas[number].is_shared for number in np.unique(plan.area_of_cell).tolist())
    return bool(shared < MAX_SHARED_AREAS_PER_MATCHER * plan.matchers)


def _count_kinds(intents: list[Intent]) -> tuple[int, int, int]:
    """Return the numbers of moves, splits and joins."""
    splits = sum(isinstance(intent, SplitByText) for intent in intents)
    joins = sum(isinstance(intent, Join) for intent in intents)
    return len(intents) - splits - joins, splits, joins
