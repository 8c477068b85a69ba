"""Registry of the spatial partitioners, which learn a spatial plan from a sample of posts and the subscriptions.

All of them balance the same load: the time that `WorkModel` predicts for a matcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from tidings.balance.cost_model import find_post_areas
from tidings.balance.kdt_hybrid import DEFAULT_SETTINGS, HybridSettings, partition_hybrid
from tidings.balance.kdt_tree import GridWorkload, KdtNode
from tidings.balance.leaf_assignment import load_ratio
from tidings.balance.spatial_baselines import GRID_CELLS, CellOwners, assign_grid, assign_rtree, split_kd_tree
from tidings.balance.term_assignment import TermSplitter, split_by_frequency, split_by_hypergraph, split_by_metric
from tidings.balance.unlocated_terms import learn_unlocated_area
from tidings.balance.work_model import WorkSample
from tidings.balance.workload import Workload
from tidings.errors import InputError
from tidings.plan.grid_lines import GridLines
from tidings.plan.load_model import WorkModel
from tidings.plan.space import Area, SpatialPlan
from tidings.plan.words import check_matcher_count

Leaves = list[tuple[KdtNode, int]]  # each with its matcher
TreeGrower = Callable[[KdtNode, int, HybridSettings], Leaves]
PlanFitter = Callable[[WorkSample, int, WorkModel, HybridSettings], SpatialPlan]

SPATIAL_PARTITIONERS = ("hybrid", "kdt", "grid", "kdtree", "rtree", "frequency", "hypergraph", "metric")
_CUT_ROUNDS = 5
_SEND_NS = 100.0  # to send a copy of a post to a matcher through Spark
_HELD_OUT = 3  # every third post is withheld from the candidates of `hybrid`, to compare them


def fit_spatial_plan(
    name: str,
    workload: Workload,
    matchers: int,
    model: WorkModel | None = None,
    settings: HybridSettings = DEFAULT_SETTINGS,
) -> SpatialPlan:
    """Fit a plan by the name of its algorithm. `settings` are for `hybrid` and `kdt`.

    Raises InputError for an unknown name.
    """
    if name not in SPATIAL_PARTITIONERS:
        raise InputError(f"partitioner {name!r}: unknown. Choose one of: {', '.join(SPATIAL_PARTITIONERS)}.")
    check_matcher_count(matchers)
    sample, model = WorkSample.build(workload), model or WorkModel()
    tree = _choose_candidate(sample, matchers, model, settings) if name == "hybrid" else name
    plan = _FITTERS[tree](sample, matchers, model, settings)
    parameters = settings.to_dict() if tree in ALGORITHM_1 else {}
    return replace(plan, algorithm=name, tree=tree, parameters=parameters)


def _choose_candidate(sample: WorkSample, matchers: int, model: WorkModel, settings: HybridSettings) -> str:
    """Return the candidate whose busiest matcher has least work for held-out posts, those sent to it included."""
    sending = replace(model, post_ns=model.post_ns + _SEND_NS)
    number = np.arange(len(sample.workload.positions))
    held_out, training = (sample.select_posts(np.flatnonzero(part)) for part in _split_off(number))
    plans = (_FITTERS[name](training, matchers, model, settings) for name in CANDIDATES)
    return CANDIDATES[int(np.argmin([max(held_out.estimate_ns(plan, sending)) for plan in plans]))]


def _split_off(number: NDArray[np.intp]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    is_held_out = number % _HELD_OUT == 0
    return is_held_out, ~is_held_out


def _fit_tree(grow: TreeGrower) -> PlanFitter:
    """Return a fitter of trees. Cuts have equally many posts on both sides."""

    def fit(sample: WorkSample, matchers: int, model: WorkModel, settings: HybridSettings) -> SpatialPlan:
        grid = GridWorkload.build(sample, GridLines.from_posts(sample.workload.positions), model)
        return _build_tree_plan(grow(grid.root(), matchers, settings), grid, matchers)

    return fit


def _fit_even_tree(grow: TreeGrower) -> PlanFitter:
    """Return a fitter of trees. Cuts have equal work on both sides: posts are weighted by what they match.

    A matcher also has work for insertions and deletions, which is known only after the cuts. The weights of its posts
    are then scaled to its whole work and the cuts are made again, `_CUT_ROUNDS` times. The most even plan wins. Only if
    its loads differ by more than σ, the tree is also grown with further splits of the largest nodes.
    """

    def fit(sample: WorkSample, matchers: int, model: WorkModel, settings: HybridSettings) -> SpatialPlan:
        lines, weights = GridLines.from_posts(sample.workload.positions), sample.estimate_post_ns(model)
        plans: list[SpatialPlan] = []
        works: list[NDArray[np.float64]] = []
        grids: list[GridWorkload] = []
        for _ in range(_CUT_ROUNDS):
            grids.append(GridWorkload.build(sample, lines, model, weights))
            leaves = grow(grids[-1].root(), matchers, replace(settings, sigma=inf))
            plans.append(_build_tree_plan(leaves, grids[-1], matchers))
            works.append(sample.estimate_ns(plans[-1], model))
            weights = _scale_weights(plans[-1], sample.workload, weights, works[-1])
        best = int(np.argmin([work.max() for work in works]))
        if load_ratio(works[best]) <= settings.sigma:
            return plans[best]
        plan = _build_tree_plan(grow(grids[best].root(), matchers, settings), grids[best], matchers)
        return plan if sample.estimate_ns(plan, model).max() < works[best].max() else plans[best]

    return fit


def _scale_weights(
    plan: SpatialPlan, workload: Workload, weights: NDArray[np.float64], work: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Scale the weights of the posts in each area to the work of its matchers."""
    area_of = find_post_areas(plan, workload)
    in_area = np.bincount(area_of, weights, len(plan.areas))
    owners = [list(dict.fromkeys(area.matchers)) for area in plan.areas]
    weight_of = np.zeros(plan.matchers)
    for number, matchers in enumerate(owners):
        weight_of[matchers] += in_area[number] / len(matchers)
    factors = [work[matchers].sum() / max(1e-9, weight_of[matchers].sum()) for matchers in owners]
    return np.asarray(weights * np.array(factors)[area_of])


def _fit_cells(
    assign: Callable[[GridWorkload, int], CellOwners], draw_lines: Callable[[Workload], GridLines]
) -> PlanFitter:
    def fit(sample: WorkSample, matchers: int, model: WorkModel, _: HybridSettings) -> SpatialPlan:
        grid = GridWorkload.build(sample, draw_lines(sample.workload), model)
        area_of_cell, owners = assign(grid, matchers)
        return _build_plan(area_of_cell, [Area((matcher,)) for matcher in owners.tolist()], grid, matchers)

    return fit


def _fit_terms(split: TermSplitter) -> PlanFitter:
    """Return a fitter of plans with one area, whose terms all matchers divide among them."""

    def fit(sample: WorkSample, matchers: int, model: WorkModel, _: HybridSettings) -> SpatialPlan:
        grid = GridWorkload.build(sample, GridLines(np.zeros(0), np.zeros(0)), model)
        root = replace(grid.root(), posts=np.arange(len(sample.workload.positions)))  # also those without a position
        leaves = [(node, matcher) for matcher, node in enumerate(root.split_by_text(matchers, split))]
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
    "even-kdt": _fit_even_tree(partition_hybrid),
    "kdtree": _fit_even_tree(lambda root, matchers, _: split_kd_tree(root, matchers)),
    "rtree": _fit_cells(assign_rtree, _draw_quantile_lines),
    "frequency": _fit_terms(split_by_frequency),
    "hypergraph": _fit_terms(split_by_hypergraph),
    "metric": _fit_terms(split_by_metric),
}
ALGORITHM_1 = ("kdt", "even-kdt")
CANDIDATES = ("even-kdt", "kdtree", "metric")  # of `hybrid`


def _build_tree_plan(leaves: Leaves, grid: GridWorkload, matchers: int) -> SpatialPlan:
    area_of_cell, areas = _build_areas(leaves, grid.lines, grid.workload.terms)
    return _build_plan(area_of_cell, areas, grid, matchers)


def _build_plan(
    area_of_cell: NDArray[np.int64], areas: Sequence[Area], grid: GridWorkload, matchers: int
) -> SpatialPlan:
    """Build the plan and learn its last area: with a single shared area, the same terms; else by `unlocated_terms`."""
    cells, posts = area_of_cell.ravel().astype(np.uint32), len(grid.workload.positions)
    plan = SpatialPlan("", matchers, posts, grid.lines, cells, (*areas, areas[int(cells[0])]), grid.model)
    if len(areas) == 1 and areas[0].is_shared:
        return plan
    return replace(plan, areas=(*areas, learn_unlocated_area(grid.sample, plan, grid.model)))


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
