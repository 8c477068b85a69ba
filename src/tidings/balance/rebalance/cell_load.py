"""Measure the load of the cells of matchers: the measured time of a matcher, distributed over its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.balance.rebalance.local_policy import CellLoad
from tidings.balance.rebalance.measured_load import MeasuredLoad
from tidings.balance.rebalance.recent_cells import RecentCells
from tidings.balance.rebalance.shard_sample import Counts, ShardSample
from tidings.balance.work_model import WorkModel
from tidings.plan.space import SpatialPlan

_PRIOR_POSTS = 4  # weight of the average over all cells in the estimate of one cell

LoadsByMatcher = dict[int, list[CellLoad]]


def measure_loads(
    shards: Mapping[int, ShardSample], plan: SpatialPlan, measured: MeasuredLoad, recent: RecentCells, model: WorkModel
) -> LoadsByMatcher:
    """Return the loads of the cells of each sampled matcher. Their sum is its measured time, if that is known."""
    cells = measure_cells(shards, plan, measured.cells, measured.sent_by_cell)
    updates = measured.updates / max(1.0, sum(shard.conjunctions for shard in shards.values()))
    return scale_to_seconds(add_work(cells, shards, recent, model, updates), measured.seconds)


def measure_cells(
    shards: Mapping[int, ShardSample], plan: SpatialPlan, cells: Counts, by_cell: NDArray[np.number]
) -> LoadsByMatcher:
    """Return the posts and conjunctions of the cells that have both. `cells` and `by_cell` are of `RoutingStats`."""
    is_text = np.array([area.is_shared for area in plan.areas])[np.append(plan.area_of_cell, plan.unlocated_area)]
    loads = {}
    for matcher, shard in shards.items():
        of_matcher = cells % plan.matchers == matcher
        posts = np.bincount(cells[of_matcher] // plan.matchers, by_cell[of_matcher], shard.cells + 1)
        counts, once = shard.count_per_cell()
        held = np.append(counts, 0.0) + shard.free
        sizes = np.rint(np.append(once, shard.free) * shard.bytes_per_conjunction).astype(np.int64)
        used = np.flatnonzero((posts > 0) & (held > 0)).tolist()
        loads[matcher] = [CellLoad(c, posts[c], held[c], int(sizes[c]), bool(is_text[c])) for c in used]
    return loads


def add_work(
    matchers: Mapping[int, Sequence[CellLoad]],
    shards: Mapping[int, ShardSample],
    recent: RecentCells,
    model: WorkModel,
    updates: float = 0.0,
) -> LoadsByMatcher:
    """Return the cells with the time they take, estimated from what recent posts match in them.

    The average over all cells counts as `_PRIOR_POSTS` posts, so that cells with few posts have a usable estimate.
    `updates` is the number of insertions and deletions per conjunction.
    """
    samples = {matcher: recent.count_work(shard) for matcher, shard in shards.items()}
    pairs = 0.0
    for matcher, cells in matchers.items():
        subscriptions = np.zeros(samples[matcher].shape[1])
        subscriptions[[cell.cell for cell in cells]] = [cell.subscriptions for cell in cells]
        pairs += float(samples[matcher][0] @ subscriptions)
    totals = np.sum([sample.sum(axis=1) for sample in samples.values()], axis=0)
    average = _AverageWork(totals[1] / max(1.0, totals[0]), totals[2] / max(1.0, pairs))
    loads = {}
    for matcher, cells in matchers.items():
        update_ns = updates * model.update_ns / max(1e-9, shards[matcher].bytes_per_conjunction)  # per byte
        sample = samples[matcher]
        loads[matcher] = [_estimate_cell(cell, sample[:, cell.cell], average, model, update_ns) for cell in cells]
    return loads


class _AverageWork(NamedTuple):
    """Averages over all cells: lookups per post, hits per post and subscription of its cell."""

    lookups: float
    hits: float


def _estimate_cell(
    cell: CellLoad, sample: NDArray[np.float64], average: _AverageWork, model: WorkModel, update_ns: float
) -> CellLoad:
    posts, lookups, hits = sample.tolist()
    lookups = (lookups + _PRIOR_POSTS * average.lookups) / (posts + _PRIOR_POSTS)
    hits = (hits + _PRIOR_POSTS * average.hits * cell.subscriptions) / (posts + _PRIOR_POSTS)
    matching_ns = cell.posts * (model.post_ns + model.term_ns * lookups + model.hit_ns * hits)
    return replace(cell, work=matching_ns + update_ns * cell.size_bytes)


def scale_to_seconds(matchers: Mapping[int, Sequence[CellLoad]], seconds: Sequence[float]) -> LoadsByMatcher:
    """Return the cells of each matcher with loads that add up to its measured seconds, if these are known."""
    scaled = {}
    for matcher, cells in matchers.items():
        total = sum(cell.load for cell in cells)
        factor = seconds[matcher] / total if seconds and total else 1.0
        scaled[matcher] = [replace(cell, work=cell.load * factor) for cell in cells]
    return scaled
