"""Learning a space plan from a sample of posts and the subscriptions. A new algorithm joins by being listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.partition.space.cuts import GRID_CELLS, Owned, grid_cells, kd_leaves, rtree_leaves
from tidings.partition.space.hybrid import partition_hybrid
from tidings.partition.space.load import LoadModel
from tidings.partition.space.node import Ground, Node
from tidings.partition.space.plan import Area, SpacePlan
from tidings.partition.space.text import TextSplit, by_frequency, by_hypergraph, by_metric
from tidings.partition.space.workload import Lines, Workload
from tidings.partition.words.plan import checked_matchers

TEXT: Mapping[str, TextSplit] = {"frequency": by_frequency, "hypergraph": by_hypergraph, "metric": by_metric}
TREES: Mapping[str, Callable[[Node, int], list[tuple[Node, int]]]] = {"hybrid": partition_hybrid, "kdtree": kd_leaves}
CELLS: Mapping[str, Callable[[Ground, int], Owned]] = {"grid": grid_cells, "rtree": rtree_leaves}
SPACE_PARTITIONERS = ("hybrid", "grid", "kdtree", "rtree", "frequency", "hypergraph", "metric")


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
    lines = _lines(name, workload)
    ground = Ground.of(workload, lines, model)
    if name in TREES:
        area_of_cell, areas = _areas(TREES[name](ground.root(), workers), lines, workload.terms)
    else:
        area_of_cell, owners = CELLS[name](ground, workers)
        areas = [Area((worker,)) for worker in owners.tolist()]
    nowhere = Area(tuple(range(workers)))
    return SpacePlan(name, workers, posts, lines, area_of_cell.ravel().astype(np.uint32), (*areas, nowhere), model)


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
