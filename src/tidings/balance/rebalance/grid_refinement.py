"""Divide overloaded cells by more grid lines, so that several matchers can share the posts of a crowd."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidings.balance.rebalance.measured_load import MeasuredLoad
from tidings.balance.rebalance.recent_cells import RecentCells
from tidings.index.plan_change import find_cells_in
from tidings.plan.grid_lines import GridLines
from tidings.plan.space import SpatialPlan

MAX_LINES = 256  # per axis
PIECES_PER_AXIS = 4  # of an overloaded cell
_MIN_POSTS = 16  # recent posts of a cell that show where its posts are


def refine_grid(plan: SpatialPlan, recent: RecentCells, cells: Iterable[int]) -> SpatialPlan:
    """Return a plan with more grid lines through these cells, at quantiles of their posts; areas stay the same.

    It is the same plan if the recent posts of the cells are too few or at one point, or if there are many lines.
    """
    lons, lats = plan.lines.lons, plan.lines.lats
    for cell in cells:
        positions = recent.workload.positions[recent.cells == cell]
        if len(positions) >= _MIN_POSTS:
            lons, lats = (_add_lines(lines, positions[:, axis]) for axis, lines in enumerate((lons, lats)))
    lines = GridLines(lons, lats)
    if lines.columns == plan.lines.columns and lines.rows == plan.lines.rows:
        return plan
    return replace(plan, lines=lines, area_of_cell=plan.area_of_cell[find_cells_in(plan.lines, lines)])


def _add_lines(lines: NDArray[np.float64], coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lines and those that divide the coordinates into equal parts, as far as they are different."""
    shares = np.arange(1, PIECES_PER_AXIS) / PIECES_PER_AXIS
    new = np.unique(np.quantile(coordinates, shares, method="higher"))
    new = np.setdiff1d(new[new > coordinates.min()], lines)
    return np.sort(np.concatenate([lines, new])) if len(lines) + len(new) <= MAX_LINES else lines


def refine_measured(measured: MeasuredLoad, plan: SpatialPlan, finer: SpatialPlan, recent: RecentCells) -> MeasuredLoad:
    """Return the posts per cell of the finer grid: those of a cell are divided as its recent posts are.

    `recent` has the cells of the finer grid.
    """
    parent, before = find_cells_in(plan.lines, finer.lines), len(plan.area_of_cell)
    order, children = np.argsort(parent, kind="stable"), np.bincount(parent, minlength=before)
    counts = np.bincount(recent.cells, minlength=len(parent) + 1)[:-1]
    total = np.bincount(parent, counts, before)
    share = np.append((counts + 1 / children[parent]) / (total[parent] + 1), 1.0)  # one post is evenly distributed
    order, children = np.append(order, len(parent)), np.append(children, 1)  # posts without a position
    cell, matcher = np.divmod(measured.cells, plan.matchers)
    firsts = np.cumsum(children) - children
    ends = np.cumsum(children[cell])
    row = np.repeat(np.arange(len(cell)), children[cell])
    child = order[firsts[cell][row] + np.arange(len(row)) - (ends - children[cell])[row]]
    sent = measured.sent_by_cell[row] * share[child]
    return replace(measured, cells=child * plan.matchers + matcher[row], sent_by_cell=sent)
