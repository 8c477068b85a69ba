"""Run the local rebalancing step: compare the matchers, measure the cells of the givers, decide, prepare an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from tidings.balance.rebalance.apply import apply_intents
from tidings.balance.rebalance.cell_load import LoadsByMatcher, measure_loads
from tidings.balance.rebalance.grid_refinement import refine_grid, refine_measured
from tidings.balance.rebalance.local_policy import (
    CellLoad,
    Intent,
    Join,
    LocalSettings,
    Move,
    SplitByText,
    Transfer,
    decide,
    is_worth_rebalancing,
    plan_transfers,
)
from tidings.balance.rebalance.measured_load import MeasuredLoad
from tidings.balance.rebalance.recent_cells import RecentCells
from tidings.balance.rebalance.shard_sample import ShardSample, sample_shards
from tidings.balance.spatial_fit import PostSample
from tidings.index.builder import UnpublishedVersion
from tidings.index.migrate import prepare_migration
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.plan.space import SpatialPlan

_MAX_REFINEMENTS = 3  # of the grid in one step
_MAX_PARTS = 32  # of the terms of an overloaded cell
MAX_SHARED_AREAS_PER_MATCHER = 16  # a router has a row with all terms for each shared area


@dataclass(frozen=True, slots=True)
class LocalRebalancing:
    """A prepared version, what changes between which matchers, and the bytes written for it."""

    prepared: UnpublishedVersion
    intents: tuple[Intent, ...]
    ratio: float  # of the largest load to the smallest, before the step
    size_bytes: int
    subscriptions: int  # that were written to another matcher

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The matchers that give and take, in the order of the intents."""
        return list(dict.fromkeys((intent.source, intent.target) for intent in self.intents))

    @property
    def cells(self) -> dict[str, int]:
        """How many cells are moved, split by term, and joined."""
        counts = Counter(type(intent) for intent in self.intents)
        return {"moved": counts[Move], "split": counts[SplitByText], "joined": counts[Join]}

    def to_dict(self) -> dict[str, Any]:
        """Return what the status of a stream shows."""
        return {"pairs": self.pairs, "cells": self.cells, "subscriptions": self.subscriptions}

    def __str__(self) -> str:
        words = {"moved": "moved", "split": "split by term", "joined": "joined"}
        changes = ", ".join(f"{count} {words[kind]}" for kind, count in self.cells.items() if count)
        ratio = "some load, the idlest none" if np.isinf(self.ratio) else f"{self.ratio:.1f} times that of the idlest"
        pairs = ", ".join(f"{source} to {target}" for source, target in self.pairs)
        return f"the load of the busiest matcher was {ratio}; cells: {changes}; from matcher {pairs}"


def prepare_rebalancing(
    index: Index, measured: MeasuredLoad, recent: PostSample, settings: LocalSettings
) -> LocalRebalancing | None:
    """Prepare a version with more even loads. None if the loads are balanced or no step would improve them."""
    if measured.seconds and not is_worth_rebalancing(measured.seconds, settings):
        return None
    transfers = plan_transfers(measured.seconds, settings)
    state = _State.measure(index, measured, recent, transfers, settings)
    loads = measured.seconds or tuple(sum(cell.load for cell in state.cells[n]) for n in sorted(state.cells))
    transfers = transfers or plan_transfers(loads, settings)
    if not transfers:
        return None
    state = state.refine(transfers)
    cells = dict(state.cells) | {pair.source: state.examine(pair) for pair in _first_of_each_giver(transfers)}
    intents = decide(cells, transfers, settings)
    if not intents:
        return None
    migration = prepare_migration(index, apply_intents(state.plan, intents))
    ratio = max(loads) / min(loads) if min(loads) else float("inf")
    return LocalRebalancing(migration.version, tuple(intents), ratio, migration.size_bytes, migration.subscriptions)


def _list_involved(transfers: Sequence[Transfer]) -> set[int]:
    """Return the givers, and the first receiver of each, with which cells may be joined."""
    return {number for transfer in _first_of_each_giver(transfers) for number in (transfer.source, transfer.target)}


def _first_of_each_giver(transfers: Sequence[Transfer]) -> list[Transfer]:
    return list({transfer.source: transfer for transfer in reversed(transfers)}.values())[::-1]


@dataclass(frozen=True, slots=True)
class _State:
    """The cells of a plan with their loads, and what these are estimated from."""

    plan: SpatialPlan
    measured: MeasuredLoad
    recent: RecentCells
    shards: Mapping[int, ShardSample]
    cells: LoadsByMatcher
    settings: LocalSettings

    @classmethod
    def measure(
        cls,
        index: Index,
        measured: MeasuredLoad,
        recent: PostSample,
        transfers: Sequence[Transfer],
        settings: LocalSettings,
    ) -> _State:
        """Measure the cells of the matchers of the transfers; of all matchers if there are no transfers yet."""
        assert index.manifest.plan is not None
        plan = cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)
        shards = sample_shards(index, plan, _list_involved(transfers) if transfers else None)
        recent_cells = RecentCells.build(index, plan, recent)
        cells = measure_loads(shards, plan, measured, recent_cells, settings.work)
        return cls(plan, measured, recent_cells, shards, cells, settings)

    def refine(self, transfers: Sequence[Transfer]) -> _State:
        """Divide cells that are too large for the transfers by more grid lines, if their posts allow it."""
        state = self
        for _ in range(_MAX_REFINEMENTS):
            finer = refine_grid(state.plan, state.recent, state._list_overloaded(transfers))
            if finer is state.plan:
                break
            state = state._with_plan(finer)
        return state

    def _list_overloaded(self, transfers: Sequence[Transfer]) -> list[int]:
        return [
            cell.cell
            for pair in _first_of_each_giver(transfers)
            for cell in self.cells[pair.source]
            if cell.load > pair.load / 2
        ]

    def _with_plan(self, finer: SpatialPlan) -> _State:
        recent = self.recent.with_plan(finer)
        shards = {number: shard.with_plan(finer) for number, shard in self.shards.items()}
        measured = refine_measured(self.measured, self.plan, finer, recent)
        cells = measure_loads(shards, finer, measured, recent, self.settings.work)
        return replace(self, plan=finer, measured=measured, recent=recent, shards=shards, cells=cells)

    def examine(self, transfer: Transfer) -> list[CellLoad]:
        """Return the cells of a giver: the heaviest with what a join or a split would do, overloaded ones in parts."""
        heaviest = sorted(self.cells[transfer.source], key=lambda cell: (-cell.load, cell.cell))
        top, others = heaviest[: self.settings.top_cells], heaviest[self.settings.top_cells :]
        return [*(part for cell in top for part in self._examine_cell(cell, transfer)), *others]

    def _examine_cell(self, cell: CellLoad, transfer: Transfer) -> list[CellLoad]:
        shard, work = self.shards[transfer.source], self.settings.work
        parts = min(_MAX_PARTS, max(2, ceil(1.5 * cell.load / transfer.load)))
        if cell.load > transfer.load and self._may_split(cell):
            split = self.recent.split_terms(cell, shard, parts, work)
            return [replace(cell, work=p.load, size_bytes=p.size_bytes, terms=p.terms) for p in split] or [cell]
        if cell.is_text:
            return [self._examine_join(cell, transfer)]
        halves = self.recent.split_terms(cell, shard, 2, work) if self._may_split(cell) else []
        return [replace(cell, halves=(halves[0], halves[1])) if halves else cell]

    def _examine_join(self, cell: CellLoad, transfer: Transfer) -> CellLoad:
        other = next((other for other in self.cells[transfer.target] if other.cell == cell.cell), None)
        if other is None:
            return cell
        shards = (self.shards[transfer.source], self.shards[transfer.target])
        return replace(cell, joined_load=self.recent.estimate_join((cell, other), shards, self.settings.work))

    def _may_split(self, cell: CellLoad) -> bool:
        if cell.is_text:
            return True
        used = np.unique(self.plan.area_of_cell).tolist()
        shared = sum(self.plan.areas[number].is_shared for number in used)
        return bool(shared < MAX_SHARED_AREAS_PER_MATCHER * self.plan.matchers)
