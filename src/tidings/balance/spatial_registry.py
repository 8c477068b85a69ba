"""Learning a space plan from a sample of posts and the subscriptions. A new algorithm joins by being listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_hybrid import partition_hybrid
from tidings.balance.kdt_tree import Ground, Node
from tidings.balance.spatial_baselines import GRID_CELLS, Owned, grid_cells, kd_leaves, rtree_leaves
from tidings.balance.term_assignment import TextSplit, by_frequency, by_hypergraph, by_metric
from tidings.balance.work_model import Sample, WorkModel
from tidings.balance.workload import Workload
from tidings.errors import InputError
from tidings.plan.grid_lines import Lines
from tidings.plan.load_model import LoadModel
from tidings.plan.space import Area, SpacePlan
from tidings.plan.words import checked_matchers

Leaves = list[tuple[Node, int]]
TEXT: Mapping[str, TextSplit] = {"frequency": by_frequency, "hypergraph": by_hypergraph, "metric": by_metric}
TREES: Mapping[str, Callable[[Node, int], Leaves]] = {"kdt": partition_hybrid, "kdtree": kd_leaves}
CELLS: Mapping[str, Callable[[Ground, int], Owned]] = {"grid": grid_cells, "rtree": rtree_leaves}
SPACE_PARTITIONERS = ("hybrid", "kdt", "grid", "kdtree", "rtree", "frequency", "hypergraph", "metric")
_CUT_AGAIN = 4
_HELD_OUT = 3  # every so manyth post is kept from the candidates of `hybrid`, to judge them by


def fit_space(name: str, workload: Workload, workers: int, model: LoadModel | None = None) -> SpacePlan:
    """A plan by the name of its algorithm."""
    if name not in SPACE_PARTITIONERS:
        raise InputError(f"There is no partitioner called {name!r}; choose one of: {', '.join(SPACE_PARTITIONERS)}.")
    checked_matchers(workers)
    posts = len(workload.positions)
    model = model or LoadModel.paced(posts, len(workload.anchors))
    if name in TEXT:
        everywhere = _text_area(workload, workers, TEXT[name])
        lines = Lines(np.zeros(0), np.zeros(0))
        return SpacePlan(name, workers, posts, lines, np.zeros(1, np.uint32), (everywhere, everywhere), model)
    if name == "hybrid":
        return replace(_best_tree(workload, workers, model), algorithm=name)
    ground = Ground.of(workload, _lines(name, workload), model)
    if name in TREES:
        return _tree(name, TREES[name](ground.root(), workers), ground, workers)
    area_of_cell, owners = CELLS[name](ground, workers)
    return _plan(name, area_of_cell, [Area((worker,)) for worker in owners.tolist()], ground, workers)


def _best_tree(workload: Workload, workers: int, model: LoadModel) -> SpacePlan:
    """The tree whose busiest worker has least to do for posts that it was not made from, made again from all posts."""
    number = np.arange(len(workload.positions))
    held_out = Sample.of(workload.of_posts(number[number % _HELD_OUT == 0]))
    learned = workload.of_posts(number[number % _HELD_OUT > 0])
    busiest = [max(held_out.work(make(learned, workers, model), WorkModel())) for make in CANDIDATES]
    return CANDIDATES[int(np.argmin(busiest))](workload, workers, model)


def _by_posts(grow: Callable[[Node, int], Leaves]) -> MakeTree:
    """Cuts have equally many posts on both sides."""

    def make(workload: Workload, workers: int, model: LoadModel) -> SpacePlan:
        ground = Ground.of(workload, Lines.by_posts(workload.positions), model)
        return _tree("hybrid", grow(ground.root(), workers), ground, workers)

    return make


def _by_work(grow: Callable[[Node, int], Leaves]) -> MakeTree:
    """Cuts have equally much work on both sides: what posts find counts, not only how many there are.

    What a worker has to do beside that, as its subscriptions come and go, is known when the cuts are made: then its
    posts are given that weight too, and the cuts are made again, some times. The most even ones are kept.
    """

    def make(workload: Workload, workers: int, model: LoadModel) -> SpacePlan:
        sample, lines = Sample.of(workload), Lines.by_posts(workload.positions)
        weights = sample.post_ns(WorkModel())
        made: list[tuple[float, SpacePlan]] = []
        for _ in range(_CUT_AGAIN):
            ground = Ground.of(workload, lines, model, weights)
            plan = _tree("hybrid", grow(ground.root(), workers), ground, workers)
            work, owner = sample.work(plan, WorkModel()), plan.first_workers(workload.positions)
            made.append((float(work.max()), plan))
            weights = weights * (work / np.maximum(np.bincount(owner, weights, workers), 1e-9))[owner]
        return min(made, key=lambda one: one[0])[1]

    return make


def _words_alone(root: Node, workers: int) -> Leaves:
    return [(node, worker) for worker, node in enumerate(root.by_text(workers, by_metric))]


MakeTree = Callable[[Workload, int, LoadModel], SpacePlan]
CANDIDATES: Sequence[MakeTree] = (
    _by_posts(partition_hybrid),
    _by_work(kd_leaves),
    _by_posts(_words_alone),
)


def _tree(name: str, leaves: Leaves, ground: Ground, workers: int) -> SpacePlan:
    area_of_cell, areas = _areas(leaves, ground.lines, ground.workload.terms)
    return _plan(name, area_of_cell, areas, ground, workers)


def _plan(name: str, area_of_cell: NDArray[np.int64], areas: Sequence[Area], ground: Ground, workers: int) -> SpacePlan:
    cells, nowhere = area_of_cell.ravel().astype(np.uint32), Area(tuple(range(workers)))
    posts = len(ground.workload.positions)
    return SpacePlan(name, workers, posts, ground.lines, cells, (*areas, nowhere), ground.model)


def _lines(name: str, workload: Workload) -> Lines:
    located = workload.positions[workload.located]
    if name != "grid":
        return Lines.by_posts(workload.positions)
    extent = [*located.min(axis=0), *located.max(axis=0)] if len(located) else [-180.0, -90.0, 180.0, 90.0]
    return Lines.even(extent, GRID_CELLS)


def _text_area(workload: Workload, workers: int, split: TextSplit) -> Area:
    anchors = np.unique(workload.anchors[workload.anchors > 0])
    part_of = split(workload, np.arange(len(workload.positions)), anchors, workers)
    words = {workload.terms[word - 1]: int(part) for word, part in zip(anchors.tolist(), part_of, strict=True)}
    return Area(tuple(range(workers)), words)


def _areas(
    leaves: Sequence[tuple[Node, int]], lines: Lines, terms: Sequence[bytes]
) -> tuple[NDArray[np.int64], list[Area]]:
    """Nodes of the same cells are one area, whose words their workers share."""
    together: dict[tuple[int, int, int, int], list[tuple[Node, int]]] = {}
    for node, worker in leaves:
        together.setdefault(node.cells, []).append((node, worker))
    area_of_cell = np.zeros((lines.rows, lines.columns), np.int64)
    areas: list[Area] = []
    for (left, low, right, high), nodes in together.items():
        area_of_cell[low:high, left:right] = len(areas)
        workers = tuple(dict.fromkeys(worker for _, worker in nodes))
        words = {terms[word - 1]: worker for node, worker in nodes if node.words is not None for word in node.words}
        areas.append(Area(workers, words if len(workers) > 1 else {}))
    return area_of_cell, areas
