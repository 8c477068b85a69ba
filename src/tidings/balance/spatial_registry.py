"""Registry of the spatial partitioners, which learn a spatial plan from a sample of posts and the subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_hybrid import partition_hybrid
from tidings.balance.kdt_tree import GridWorkload, KdtNode
from tidings.balance.spatial_baselines import GRID_CELLS, CellOwners, assign_grid, assign_rtree, split_kd_tree
from tidings.balance.term_assignment import TermSplitter, split_by_frequency, split_by_hypergraph, split_by_metric
from tidings.balance.work_model import WorkModel, WorkSample
from tidings.balance.workload import Workload
from tidings.errors import InputError
from tidings.plan.grid_lines import GridLines
from tidings.plan.load_model import LoadModel
from tidings.plan.space import Area, SpatialPlan
from tidings.plan.words import check_matcher_count

Leaves = list[tuple[KdtNode, int]]  # each with its matcher
TreeGrower = Callable[[KdtNode, int], Leaves]
PlanBuilder = Callable[[Workload, int, LoadModel], SpatialPlan]

_TERM_SPLITTERS: Mapping[str, TermSplitter] = {
    "frequency": split_by_frequency,
    "hypergraph": split_by_hypergraph,
    "metric": split_by_metric,
}
_TREE_GROWERS: Mapping[str, TreeGrower] = {"kdt": partition_hybrid, "kdtree": split_kd_tree}
_CELL_ASSIGNERS: Mapping[str, Callable[[GridWorkload, int], CellOwners]] = {"grid": assign_grid, "rtree": assign_rtree}
SPATIAL_PARTITIONERS = ("hybrid", "kdt", "grid", "kdtree", "rtree", "frequency", "hypergraph", "metric")
_CUT_ROUNDS = 4
_HELD_OUT = 3  # every third post is withheld from the candidates of `hybrid`, to compare them


def fit_spatial_plan(name: str, workload: Workload, matchers: int, model: LoadModel | None = None) -> SpatialPlan:
    """Fit a plan by the name of its algorithm. Raises InputError for an unknown name."""
    if name not in SPATIAL_PARTITIONERS:
        raise InputError(f"partitioner {name!r}: unknown. Choose one of: {', '.join(SPATIAL_PARTITIONERS)}.")
    check_matcher_count(matchers)
    posts = len(workload.positions)
    model = model or LoadModel.with_update_rate(posts, len(workload.anchors))
    if name in _TERM_SPLITTERS:
        everywhere = _build_text_area(workload, matchers, _TERM_SPLITTERS[name])
        lines = GridLines(np.zeros(0), np.zeros(0))
        return SpatialPlan(name, matchers, posts, lines, np.zeros(1, np.uint32), (everywhere, everywhere), model)
    if name == "hybrid":
        return replace(_fit_best_candidate(workload, matchers, model), algorithm=name)
    grid = GridWorkload.build(workload, _choose_lines(name, workload), model)
    if name in _TREE_GROWERS:
        return _build_tree_plan(name, _TREE_GROWERS[name](grid.root(), matchers), grid, matchers)
    area_of_cell, owners = _CELL_ASSIGNERS[name](grid, matchers)
    return _build_plan(name, area_of_cell, [Area((matcher,)) for matcher in owners.tolist()], grid, matchers)


def _fit_best_candidate(workload: Workload, matchers: int, model: LoadModel) -> SpatialPlan:
    """Choose the candidate whose busiest matcher has least work for held-out posts, and fit it to all posts."""
    number = np.arange(len(workload.positions))
    held_out = WorkSample.build(workload.select_posts(number[number % _HELD_OUT == 0]))
    training = workload.select_posts(number[number % _HELD_OUT > 0])
    busiest = [max(held_out.estimate_ns(build(training, matchers, model), WorkModel())) for build in CANDIDATES]
    return CANDIDATES[int(np.argmin(busiest))](workload, matchers, model)


def _by_posts(grow: TreeGrower) -> PlanBuilder:
    """Return a builder whose cuts have equally many posts on both sides."""

    def build(workload: Workload, matchers: int, model: LoadModel) -> SpatialPlan:
        grid = GridWorkload.build(workload, GridLines.from_posts(workload.positions), model)
        return _build_tree_plan("hybrid", grow(grid.root(), matchers), grid, matchers)

    return build


def _by_work(grow: TreeGrower) -> PlanBuilder:
    """Return a builder whose cuts have equal work on both sides: posts are weighted by what they match.

    A matcher also has work for insertions and deletions, which is known only after the cuts. The weights of its posts
    are then scaled to its whole work and the cuts are made again, `_CUT_ROUNDS` times. The most even plan wins.
    """

    def build(workload: Workload, matchers: int, model: LoadModel) -> SpatialPlan:
        sample, lines = WorkSample.build(workload), GridLines.from_posts(workload.positions)
        weights = sample.estimate_post_ns(WorkModel())
        plans: list[tuple[float, SpatialPlan]] = []
        for _ in range(_CUT_ROUNDS):
            grid = GridWorkload.build(workload, lines, model, weights)
            plan = _build_tree_plan("hybrid", grow(grid.root(), matchers), grid, matchers)
            work, owner = sample.estimate_ns(plan, WorkModel()), plan.first_matchers(workload.positions)
            plans.append((float(work.max()), plan))
            weights = weights * (work / np.maximum(np.bincount(owner, weights, matchers), 1e-9))[owner]
        return min(plans, key=lambda candidate: candidate[0])[1]

    return build


def _split_terms_only(root: KdtNode, matchers: int) -> Leaves:
    return [(node, matcher) for matcher, node in enumerate(root.split_by_text(matchers, split_by_metric))]


CANDIDATES: Sequence[PlanBuilder] = (
    _by_posts(partition_hybrid),
    _by_work(split_kd_tree),
    _by_posts(_split_terms_only),
)


def _build_tree_plan(name: str, leaves: Leaves, grid: GridWorkload, matchers: int) -> SpatialPlan:
    area_of_cell, areas = _build_areas(leaves, grid.lines, grid.workload.terms)
    return _build_plan(name, area_of_cell, areas, grid, matchers)


def _build_plan(
    name: str, area_of_cell: NDArray[np.int64], areas: Sequence[Area], grid: GridWorkload, matchers: int
) -> SpatialPlan:
    cells, unlocated = area_of_cell.ravel().astype(np.uint32), Area(tuple(range(matchers)))
    posts = len(grid.workload.positions)
    return SpatialPlan(name, matchers, posts, grid.lines, cells, (*areas, unlocated), grid.model)


def _choose_lines(name: str, workload: Workload) -> GridLines:
    located = workload.positions[workload.located]
    if name != "grid":
        return GridLines.from_posts(workload.positions)
    extent = [*located.min(axis=0), *located.max(axis=0)] if len(located) else [-180.0, -90.0, 180.0, 90.0]
    return GridLines.uniform(extent, GRID_CELLS)


def _build_text_area(workload: Workload, matchers: int, split: TermSplitter) -> Area:
    anchors = np.unique(workload.anchors[workload.anchors > 0])
    part_of = split(workload, np.arange(len(workload.positions)), anchors, matchers)
    matcher_of = {workload.terms[term - 1]: int(part) for term, part in zip(anchors.tolist(), part_of, strict=True)}
    return Area(tuple(range(matchers)), matcher_of)


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
