"""A sample of the conjunctions of a matcher, and the cells of the plan that they touch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidings.index.decompile import decompile
from tidings.index.reader import Index, SegmentView
from tidings.plan.grid_overlap import CellRanges, cell_ranges, count_covering
from tidings.plan.space import SpatialPlan
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import concatenate
from tidings.query.geo.geometry import bounding_boxes

SAMPLE_SUBSCRIPTIONS = 50_000  # of all matchers together
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardSample:
    """A sample of the conjunctions of one matcher. Each row stands for `scale` of them.

    A conjunction with several boxes has several rows. The cell after the last one has the posts without a position.
    """

    plan: SpatialPlan
    matcher: int
    boxes: NDArray[np.float64]
    ranges: CellRanges  # the cells that each box touches
    anchors: Counts
    free_anchors: Counts  # of conjunctions without a region, which are in all cells
    matchers: NDArray[np.uint16]  # by row and term, as `SpatialPlan.matchers_of` returns them
    row_of_cell: Counts  # the row of the area of each cell, and of posts without a position
    scale: float
    bytes_per_conjunction: float

    def with_plan(self, plan: SpatialPlan) -> ShardSample:
        """Return the sample for a plan with a finer grid, in which the areas are the same."""
        row_of_area = np.zeros(len(plan.areas), np.int64)
        row_of_area[np.append(self.plan.area_of_cell, self.plan.unlocated_area)] = self.row_of_cell
        rows = row_of_area[np.append(plan.area_of_cell, plan.unlocated_area)]
        return replace(self, plan=plan, ranges=cell_ranges(plan.lines, self.boxes), row_of_cell=rows)

    @property
    def cells(self) -> int:
        return len(self.plan.area_of_cell)

    @property
    def conjunctions(self) -> float:
        return (len(self.anchors) + len(self.free_anchors)) * self.scale

    @property
    def free(self) -> float:
        """The number of conjunctions without a region."""
        return len(self.free_anchors) * self.scale

    def owns(self, row: int, anchors: Counts) -> NDArray[np.bool_]:
        """Return whether the matcher is responsible for each anchor in the areas of a row."""
        return np.asarray(self.matchers[row, anchors] == self.matcher)

    def count_per_cell(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the conjunctions per cell, without the free ones: all, and each counted once in total.

        One in several cells of the matcher counts in each of them by an equal part in the second array.
        """
        lines, rows = self.plan.lines, self.row_of_cell[:-1]
        used = np.unique(rows).tolist()
        owned = {row: np.flatnonzero(self.owns(row, self.anchors)) for row in used}
        cells = np.zeros(len(self.ranges))
        for row in used:
            cells[owned[row]] += _count_cells(self.ranges[owned[row]], (rows == row).reshape(lines.rows, lines.columns))
        counts, once = np.zeros((2, self.cells))
        for row in used:
            in_row, ranges = rows == row, self.ranges[owned[row]]
            counts[in_row] = count_covering(ranges, lines.columns, lines.rows)[in_row] * self.scale
            parts = self.scale / np.maximum(1.0, cells[owned[row]])
            once[in_row] = _sum_covering(ranges, parts, lines.columns, lines.rows)[in_row]
        return counts, once

    def anchors_in(self, cell: int) -> Counts:
        """Return the anchors of the conjunctions that touch a cell, one per row; those without a region are in all."""
        row = int(self.row_of_cell[cell])
        free = self.free_anchors[self.owns(row, self.free_anchors)]
        if cell == self.cells:
            return free
        grid_row, column = divmod(cell, self.plan.lines.columns)
        left, low, right, high = self.ranges.T
        is_inside = (left <= column) & (column <= right) & (low <= grid_row) & (grid_row <= high)
        return np.concatenate([self.anchors[is_inside & self.owns(row, self.anchors)], free])


def _count_cells(ranges: CellRanges, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how many cells of the mask are in each range."""
    sums = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), np.int64)
    sums[1:, 1:] = mask.cumsum(axis=0).cumsum(axis=1)
    left, low, right, high = (side.astype(np.int64) for side in ranges.T)
    inside = sums[high + 1, right + 1] - sums[low, right + 1] - sums[high + 1, left] + sums[low, left]
    return np.asarray(inside.astype(np.float64))


def _sum_covering(ranges: CellRanges, values: NDArray[np.float64], columns: int, rows: int) -> NDArray[np.float64]:
    """Return, for every cell, the sum of the values of the ranges that cover it."""
    left, low, right, high = (side.astype(np.int64) for side in ranges.T)
    steps = np.zeros((rows + 1, columns + 1))
    for row, column, sign in ((low, left, 1), (low, right + 1, -1), (high + 1, left, -1), (high + 1, right + 1, 1)):
        np.add.at(steps, (row, column), sign * values)
    return np.asarray(np.maximum(steps.cumsum(axis=0).cumsum(axis=1)[:-1, :-1], 0).ravel())


def sample_shards(
    index: Index,
    plan: SpatialPlan,
    numbers: Collection[int] | None = None,
    max_subscriptions: int = SAMPLE_SUBSCRIPTIONS,
) -> dict[int, ShardSample]:
    """Return samples of the shards of these matchers (all by default), with at most so many subscriptions in total."""
    chosen = sorted(range(plan.matchers) if numbers is None else numbers)
    stored = sum(record.subscriptions for number in chosen for record in index.manifest.shards[number])
    step = max(1, -(-stored // max_subscriptions))
    row_of, matchers = plan.matchers_of(index.vocabulary.terms())
    row_of_cell = row_of[np.append(plan.area_of_cell, plan.unlocated_area)]
    return {number: _sample_shard(index, plan, number, step, matchers, row_of_cell) for number in chosen}


def _sample_shard(
    index: Index, plan: SpatialPlan, matcher: int, step: int, matchers: NDArray[np.uint16], row_of_cell: Counts
) -> ShardSample:
    views = index.open_shard(matcher)
    boxes, anchors, free_anchors = _sample_conjunctions(views, step)
    size = sum(view.segment.size_bytes for view in views) / max(1, step * (len(anchors) + len(free_anchors)))
    by_region = (boxes, cell_ranges(plan.lines, boxes), anchors, free_anchors)
    return ShardSample(plan, matcher, *by_region, matchers, row_of_cell, float(step), size)


def _sample_conjunctions(views: Sequence[SegmentView], step: int) -> tuple[NDArray[np.float64], Counts, Counts]:
    """Return boxes with their anchors, and the anchors of conjunctions without a region, of a part of a shard."""
    parts = [(decompile(view.segment, _mask_unsampled(view, step)), view.segment.ids) for view in views]
    if not parts:
        return np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, np.int64)
    conjunctions, _ = concatenate(parts)
    anchors = anchor_terms(conjunctions).astype(np.int64)
    rows = np.flatnonzero(conjunctions.anchor_region >= 0)
    boxes, which = bounding_boxes(conjunctions.regions, conjunctions.anchor_region[rows])
    return boxes, anchors[rows[which]], anchors[conjunctions.anchor_region < 0]


def _mask_unsampled(view: SegmentView, step: int) -> NDArray[np.uint8]:
    """Mask removed subscriptions, and all others except every `step`-th one."""
    is_skipped = (np.arange(len(view.segment)) % step > 0).astype(np.uint8)
    return is_skipped | view.removed if len(view.removed) else is_skipped
