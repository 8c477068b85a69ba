"""Make a spatial plan smaller without changing where any post or subscription goes.

Local steps add areas and grid lines: the numbers of areas are in the routing keys of segments, so nothing is removed
while segments with them are in use. A merge writes all segments again, and can renumber the areas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidings.plan.grid_lines import CELLS_PER_AXIS, GridLines
from tidings.plan.space import Area, SpatialPlan
from tidings.plan.words import hash_to_matchers

MAX_LINES = CELLS_PER_AXIS - 1  # per axis: redundant lines beyond are removed, the others are for later steps
_SPARE_AREAS, _SPARE_LINES = 64, 32  # that may be in the way before a plan is worth compacting
_AreaKey = tuple[tuple[int, ...], tuple[tuple[bytes, int], ...]]


def compact(plan: SpatialPlan, max_lines: int = MAX_LINES) -> SpatialPlan:
    """Return a plan that routes alike, but without what makes no difference.

    That is: unused areas, areas that are equal to others, learned terms that are hashed to the same matcher, and grid
    lines that separate nothing (beyond `max_lines` per axis). Areas have other numbers, so segments that were written
    under the first plan cannot be used with it. The same plan is returned if there is nothing to remove.
    """
    area_of_cell, areas = _join_equal_areas(plan)
    cells = area_of_cell.reshape(plan.lines.rows, plan.lines.columns)
    keep_lons = _choose_lines(plan.lines.lons, _is_equal_to_next(cells.T), max_lines)
    keep_lats = _choose_lines(plan.lines.lats, _is_equal_to_next(cells), max_lines)
    rows, columns = (np.concatenate([[True], keep]) for keep in (keep_lats, keep_lons))
    lines = GridLines(plan.lines.lons[keep_lons], plan.lines.lats[keep_lats])
    cells = cells[rows][:, columns]
    if cells.size == len(plan.area_of_cell) and areas == list(plan.areas):
        return plan
    return replace(plan, lines=lines, area_of_cell=np.ascontiguousarray(cells).ravel(), areas=tuple(areas))


def _join_equal_areas(plan: SpatialPlan) -> tuple[NDArray[np.uint32], list[Area]]:
    """Return the area of each cell, and the areas in the order of their first cells; the unlocated area is last."""
    used, firsts = np.unique(plan.area_of_cell, return_index=True)
    number_of: dict[_AreaKey, int] = {}
    areas: list[Area] = []
    new_number = np.zeros(len(plan.areas), np.uint32)
    for old in used[np.argsort(firsts)].tolist():
        area = _simplify(plan.areas[old])
        number = number_of.setdefault(_key(area), len(areas))
        if number == len(areas):
            areas.append(area)
        new_number[old] = number
    return new_number[plan.area_of_cell], [*areas, _simplify(plan.areas[plan.unlocated_area])]


def _simplify(area: Area) -> Area:
    """Return the area without terms that are hashed to their matcher, and without a former number."""
    if not area.is_shared:
        return Area(area.matchers[:1])
    terms = list(area.matcher_of_term)
    hashed = np.array(area.matchers)[hash_to_matchers(terms, len(area.matchers))].tolist() if terms else []
    pairs = zip(area.matcher_of_term.items(), hashed, strict=True)
    return Area(area.matchers, {term: matcher for (term, matcher), by_hash in pairs if matcher != by_hash})


def _key(area: Area) -> _AreaKey:
    return area.matchers, tuple(sorted(area.matcher_of_term.items()))


def _is_equal_to_next(cells: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return for each row but the last whether the next one has the same areas."""
    return np.asarray((cells[:-1] == cells[1:]).all(axis=1))


def _choose_lines(lines: NDArray[np.float64], is_redundant: NDArray[np.bool_], max_lines: int) -> NDArray[np.bool_]:
    """Return which lines to keep: all that separate something, and of the others those with most space around them."""
    gaps = np.diff(lines, prepend=-np.inf, append=np.inf)
    space = np.minimum(gaps[:-1], gaps[1:])
    candidates = np.flatnonzero(is_redundant)
    excess = max(0, min(len(lines) - max_lines, len(candidates)))
    keep = np.ones(len(lines), bool)
    keep[candidates[np.argsort(space[candidates], kind="stable")][:excess]] = False
    return keep


def is_worth_compacting(plan: SpatialPlan) -> bool:
    """Return whether much of a plan can be removed."""
    small = compact(plan)
    lines = [(len(before), len(after)) for before, after in zip(_axes(plan), _axes(small), strict=True)]
    has_many_areas = len(plan.areas) > 2 * len(small.areas) + _SPARE_AREAS
    return has_many_areas or any(before > after + _SPARE_LINES for before, after in lines)


def _axes(plan: SpatialPlan) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return plan.lines.lons, plan.lines.lats
