"""What differs between two spatial plans, of which the second has at least the grid lines of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.plan.grid_lines import GridLines
from tidings.plan.grid_overlap import cell_ranges
from tidings.plan.space import SpatialPlan


@dataclass(frozen=True, slots=True)
class PlanChange:
    """The cells of the new plan that have another area, the terms that other matchers hold, and who is concerned."""

    old: SpatialPlan
    new: SpatialPlan
    matchers: tuple[int, ...]  # all that get, or got, posts of the changed areas
    areas: NDArray[np.int64]  # the changed areas of the new plan
    is_term_changed: NDArray[np.bool_]  # by term: whether the set of the matchers responsible anywhere has changed
    _changed_before: NDArray[np.int64]  # the number of changed cells in all rows and columns before

    @classmethod
    def of(cls, old: SpatialPlan, new: SpatialPlan, terms: Sequence[bytes]) -> PlanChange:
        former = old.area_of_cell[find_cells_in(old.lines, new.lines)].astype(np.int64)
        current = new.area_of_cell.astype(np.int64)
        pairs, which = np.unique(former << 32 | current, return_inverse=True)
        areas = [(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()]
        differs = np.array([not _is_same_area(old, before, new, after) for before, after in areas], bool)
        changed = [areas[number] for number in np.flatnonzero(differs).tolist()]
        if not _is_same_area(old, old.unlocated_area, new, new.unlocated_area):
            changed.append((old.unlocated_area, new.unlocated_area))
        holders = {m for before, after in changed for m in old.areas[before].holders | new.areas[after].holders}
        mask = differs[which.reshape(-1)].reshape(new.lines.rows, new.lines.columns)
        sums = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), np.int64)
        sums[1:, 1:] = mask.cumsum(axis=0).cumsum(axis=1)
        new_areas = np.array(sorted({after for _, after in changed}), np.int64)
        return cls(old, new, tuple(sorted(holders)), new_areas, _find_changed_terms(old, new, terms), sums)

    def touches(self, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each box touches a changed cell."""
        left, low, right, high = (side.astype(np.int64) for side in cell_ranges(self.new.lines, boxes).T)
        sums = self._changed_before
        inside = sums[high + 1, right + 1] - sums[low, right + 1] - sums[high + 1, left] + sums[low, left]
        return np.asarray(inside > 0)


def find_cells_in(coarse: GridLines, fine: GridLines) -> NDArray[np.int64]:
    """Return, for each cell of a grid, the cell of a grid with some of its lines in which it lies."""
    assert np.isin(coarse.lons, fine.lons).all(), "the new grid must have all lines of the old one"
    assert np.isin(coarse.lats, fine.lats).all(), "the new grid must have all lines of the old one"
    columns = np.concatenate([[0], coarse.column(fine.lons)])
    rows = np.concatenate([[0], coarse.row(fine.lats)])
    return np.asarray((rows[:, None] * coarse.columns + columns).ravel(), np.int64)


def _is_same_area(old: SpatialPlan, before: int, new: SpatialPlan, after: int) -> bool:
    """Return whether posts go to the same matchers and segments know the area by the same number."""
    first, second = old.areas[before], new.areas[after]
    same = (first.matchers, first.matcher_of_term) == (second.matchers, second.matcher_of_term)
    has_segments = before != old.unlocated_area  # segments do not refer to the area without a position
    return same and (not has_segments or bool(old.former_ids[before] == new.former_ids[after]))


def _find_changed_terms(old: SpatialPlan, new: SpatialPlan, terms: Sequence[bytes]) -> NDArray[np.bool_]:
    before, after = (_hold_terms(plan, terms) for plan in (old, new))
    return np.asarray((before != after).any(axis=0))


def _hold_terms(plan: SpatialPlan, terms: Sequence[bytes]) -> NDArray[np.bool_]:
    """Return for every matcher and term whether the matcher is responsible for it in any area."""
    _, matchers = plan.matchers_of(terms)
    held = np.zeros((plan.matchers, len(terms) + 1), bool)
    for row in matchers:
        held[row, np.arange(len(terms) + 1)] = True
    return held
