"""Registry of the spatial partitioners, which learn a spatial plan from a sample of posts and the subscriptions.

All of them balance the same load: the time that `WorkModel` predicts for a matcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_hybrid import partition_hybrid
from tidings.balance.kdt_tree import GridWorkload, KdtNode
from tidings.balance.spatial_baselines import GRID_CELLS, CellOwners, assign_grid, assign_rtree, split_kd_tree
from tidings.balance.term_assignment import TermSplitter, split_by_frequency, split_by_hypergraph, split_by_metric
from tidings.balance.work_model import WorkSample
from tidings.balance.workload import Workload
from tidings.errors import InputError
from tidings.plan.grid_lines import GridLines
from tidings.plan.load_model import WorkModel
from tidings.plan.space import Area, SpatialPlan
from tidings.plan.words import check_matcher_count

Leaves = list[tuple[KdtNode, int]]  # each with its matcher
TreeGrower = Callable[[KdtNode, int], Leaves]
PlanFitter = Callable[[WorkSample, int, WorkModel], SpatialPlan]

SPATIAL_PARTITIONERS = ("hybrid", "kdt", "grid", "kdtree", "rtree", "frequency", "hypergraph", "metric")
_CUT_ROUNDS = 4
_HELD_OUT = 3  # every third post is withheld from the candidates of `hybrid`, to compare them


def fit_spatial_plan(name: str, workload: Workload, matchers: int, model: WorkModel | None = None) -> SpatialPlan:
    """Fit a plan by the name of its algorithm. Raises InputError for an unknown name."""
    if name not in SPATIAL_PARTITIONERS:
        raise InputError(f"partitioner {name!r}: unknown. Choose one of: {', '.join(SPATIAL_PARTITIONERS)}.")
    check_matcher_count(matchers)
    fit = _choose_candidate(workload, matchers, model or WorkModel()) if name == "hybrid" else _FITTERS[name]
    return replace(fit(WorkSample.build(workload), matchers, model or WorkModel()), algorithm=name)


def _choose_candidate(workload: Workload, matchers: int, model: WorkModel) -> PlanFitter:
    """Return the candidate whose busiest matcher has least work for held-out posts."""
    number = np.arange(len(workload.positions))
    held_out = WorkSample.build(workload.select_posts(number[number % _HELD_OUT == 0]))
    training = WorkSample.build(workload.select_posts(number[number % _HELD_OUT > 0]))
    busiest = [max(held_out.estimate_ns(fit(training, matchers, model), model)) for fit in CANDIDATES]
    return CANDIDATES[int(np.argmin(busiest))]


def _fit_tree(grow: TreeGrower) -> PlanFitter:
    """Return a fitter of trees. Cuts have equally many posts on both sides."""

    def fit(sample: WorkSample, matchers: int, model: WorkModel) -> SpatialPlan:
        grid = GridWorkload.build(sample, GridLines.from_posts(sample.workload.positions), model)
        return _build_tree_plan(grow(grid.root(), matchers), grid, matchers)

    return fit


def _fit_even_tree(grow: TreeGrower) -> PlanFitter:
    """Return a fitter of trees. Cuts have equal work on both sides: posts are weighted by what they match.

    A matcher also has work for insertions and deletions, which is known only after the cuts. The weights of its posts
    are then scaled to its whole work and the cuts are made again, `_CUT_ROUNDS` times. The most even plan wins.
    """

    def fit(sample: WorkSample, matchers: int, model: WorkModel) -> SpatialPlan:
        positions, lines = sample.workload.positions, GridLines.from_posts(sample.workload.positions)
        weights = sample.estimate_post_ns(model)
        plans: list[tuple[float, SpatialPlan]] = []
        for _ in range(_CUT_ROUNDS):
            grid = GridWorkload.build(sample, lines, model, weights)
            plan = _build_tree_plan(grow(grid.root(), matchers), grid, matchers)
            work, owner = sample.estimate_ns(plan, model), plan.first_matchers(positions)
            plans.append((float(work.max()), plan))
            weights = weights * (work / np.maximum(np.bincount(owner, weights, matchers), 1e-9))[owner]
        return min(plans, key=lambda candidate: candidate[0])[1]

    return fit


def _fit_cells(
    assign: Callable[[GridWorkload, int], CellOwners], draw_lines: Callable[[Workload], GridLines]
) -> PlanFitter:
    def fit(sample: WorkSample, matchers: int, model: WorkModel) -> SpatialPlan:
        grid = GridWorkload.build(sample, draw_lines(sample.workload), model)
        area_of_cell, owners = assign(grid, matchers)
        return _build_plan(area_of_cell, [Area((matcher,)) for matcher in owners.tolist()], grid, matchers)

    return fit


def _fit_terms(split: TermSplitter) -> PlanFitter:
    """Return a fitter of plans with one area, whose terms all matchers divide among them."""

    def fit(sample: WorkSample, matchers: int, model: WorkModel) -> SpatialPlan:
        grid = GridWorkload.build(sample, GridLines(np.zeros(0), np.zeros(0)), model)
        leaves = [(node, matcher) for matcher, node in enumerate(grid.root().split_by_text(matchers, split))]
        return _build_tree_plan(leaves, grid, matchers)

    return fit


def _draw_uniform_lines(workload: Workload) -> GridLines:
    located = workload.positions[workload.located]
    extent = [*located.min(axis=0), *located.max(axis=0)] if len(located) else [-180.0, -90.0, 180.0, 90.0]
    return GridLines.uniform(extent, GRID_CELLS)


def _draw_quantile_lines(workload: Workload) -> GridLines:
    return GridLines.from_posts(workload.positions)


_FITTERS: Mapping[str, PlanFitter] = {
    "kdt": _fit_tree(partition_hybrid),
    "grid": _fit_cells(assign_grid, _draw_uniform_lines),
    "kdtree": _fit_even_tree(split_kd_tree),
    "rtree": _fit_cells(assign_rtree, _draw_quantile_lines),
    "frequency": _fit_terms(split_by_frequency),
    "hypergraph": _fit_terms(split_by_hypergraph),
    "metric": _fit_terms(split_by_metric),
}
CANDIDATES: Sequence[PlanFitter] = (_FITTERS["kdt"], _FITTERS["kdtree"], _FITTERS["metric"])


def _build_tree_plan(leaves: Leaves, grid: GridWorkload, matchers: int) -> SpatialPlan:
    area_of_cell, areas = _build_areas(leaves, grid.lines, grid.workload.terms)
    return _build_plan(area_of_cell, areas, grid, matchers)


def _build_plan(
    area_of_cell: NDArray[np.int64], areas: Sequence[Area], grid: GridWorkload, matchers: int
) -> SpatialPlan:
    cells, unlocated = area_of_cell.ravel().astype(np.uint32), Area(tuple(range(matchers)))
    posts = len(grid.workload.positions)
    return SpatialPlan("", matchers, posts, grid.lines, cells, (*areas, unlocated), grid.model)


def _build_areas(leaves: Leaves, lines: GridLines, terms: Sequence[bytes]) -> tuple[NDArray[np.int64], list[Area]]:
    """Combine leaves with the same cells into one area, whose terms their matchers divide among them."""
    leaves_of: dict[tuple[int, int, int, int], Leaves] = {}
    for node, matcher in leaves:
        leaves_of.setdefault(node.cells, []).append((node, matcher))
    area_of_cell = np.zeros((lines.rows, lines.columns), np.int64)
    areas: list[Area] = []
    for (left, low, right, high), group in leaves_of.items():
        area_of_cell[low:high, left:right] = len(areas)
        matchers = tuple(dict.fromkeys(matcher for _, matcher in group))
        matcher_of = {
            terms[term - 1]: matcher for node, matcher in group if node.terms is not None for term in node.terms
        }
        areas.append(Area(matchers, matcher_of if len(matchers) > 1 else {}))
    return area_of_cell, areas
