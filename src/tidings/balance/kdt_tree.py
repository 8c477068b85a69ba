"""A node of the kdᵗ-tree: a rectangle of grid cells, and all or some of the anchors in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import float64, int64, types, uint8, uint64
from numpy.typing import NDArray

from tidings.balance.term_assignment import TermSplitter
from tidings.balance.work_model import WorkSample
from tidings.balance.workload import Workload
from tidings.jit import kernel, read, write
from tidings.plan.grid_lines import GridLines
from tidings.plan.grid_overlap import cell_ranges
from tidings.plan.load_model import WorkModel
from tidings.ragged import take_rows

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class GridWorkload:
    """A workload on a grid: the cell of each post, the first and last cell of each box."""

    sample: WorkSample
    lines: GridLines
    model: WorkModel
    post_cells: NDArray[np.int64]  # column, row
    box_cells: NDArray[np.int64]  # first column, first row, last column, last row
    weights: NDArray[np.float64]  # of the posts; a cut has equal weights on both sides

    @classmethod
    def build(
        cls, sample: WorkSample, lines: GridLines, model: WorkModel, weights: NDArray[np.float64] | None = None
    ) -> GridWorkload:
        """Place a workload on the grid. Without `weights`, all posts have the same weight."""
        workload = sample.workload
        lon, lat = workload.positions.T
        cells = cell_ranges(lines, workload.boxes).astype(np.int64)
        if weights is None:
            weights = np.ones(len(workload.positions))
        return cls(sample, lines, model, np.column_stack([lines.column(lon), lines.row(lat)]), cells, weights)

    @property
    def workload(self) -> Workload:
        return self.sample.workload

    def root(self) -> KdtNode:
        """Return the node with all located posts and all conjunctions."""
        cells = (0, 0, self.lines.columns, self.lines.rows)
        return KdtNode(self, cells, self.workload.located, np.arange(len(self.workload.anchors)))


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What one matcher would do for a node: posts received, anchors looked up, conjunctions found, and the time."""

    posts: NDArray[np.intp]
    lookups: float
    hits: float
    load: float


@dataclass(frozen=True, eq=False)
class KdtNode:
    """`cells`: first column, first row, and the column and row after the last. `terms`: its anchors, None for all."""

    grid: GridWorkload
    cells: tuple[int, int, int, int]
    posts: NDArray[np.intp]
    conjunctions: NDArray[np.intp]
    terms: NDArray[np.uint32] | None = None

    @cached_property
    def work(self) -> NodeWork:
        """The work for this node. Only posts with one of its anchors are routed to it."""
        sample, work = self.grid.sample, self.grid.workload
        is_anchor, is_routed = np.zeros(len(work.terms) + 1, np.uint8), np.zeros(len(self.posts), np.uint8)
        is_anchor[work.anchors[self.conjunctions]] = 1
        totals = np.zeros(2)
        _count_work(sample.starts, sample.term, sample.hits, self.posts, is_anchor, is_routed, totals)
        posts, updates = self.posts[is_routed > 0], len(self.conjunctions) * work.updates_per_row
        lookups, hits = totals.tolist()
        return NodeWork(posts, lookups, hits, self.grid.model.load(float(len(posts)), lookups, hits, updates))

    @property
    def load(self) -> float:
        return self.work.load

    def similarity(self) -> float:
        """Return the cosine similarity of term frequencies in the posts and in the conjunctions of this node."""
        work = self.grid.workload
        bounds = work.analyzed.bounds[self.posts].astype(np.int64)
        in_posts = _count_terms(work.analyzed.terms, bounds[:, 0], bounds[:, 1], len(work.terms))
        starts = work.conjunction_starts.astype(np.int64)
        first, end = starts[self.conjunctions], starts[self.conjunctions + 1]
        in_conjunctions = _count_terms(work.conjunction_terms, first, end, len(work.terms))
        norms = np.sqrt(float((in_posts**2).sum()) * float((in_conjunctions**2).sum()))
        return float(in_posts @ in_conjunctions) / norms if norms else 0.0

    def cut(self, axis: int, share: float = 0.5) -> tuple[KdtNode, KdtNode] | None:
        """Cut between columns (axis 0) or rows (1), with `share` of the weight in the first part; None: one cell."""
        low, high = self.cells[axis], self.cells[axis + 2]
        if high - low < 2:
            return None
        cells, weights = self.grid.post_cells[self.posts, axis] - low, self.grid.weights[self.posts]
        cumulative = np.cumsum(np.bincount(cells, weights, high - low))
        at = low + 1 + int(np.argmin(np.abs(cumulative[:-1] - share * cumulative[-1])))
        return self._slice(axis, low, at), self._slice(axis, at, high)

    def _slice(self, axis: int, low: int, high: int) -> KdtNode:
        cells = list(self.cells)
        cells[axis], cells[axis + 2] = low, high
        at, box = self.grid.post_cells[self.posts, axis], self.grid.box_cells[self.conjunctions]
        posts = self.posts[(at >= low) & (at < high)]
        conjunctions = self.conjunctions[(box[:, axis] < high) & (box[:, axis + 2] >= low)]
        return replace(self, cells=(cells[0], cells[1], cells[2], cells[3]), posts=posts, conjunctions=conjunctions)

    def halve(self, share: float = 0.5) -> tuple[KdtNode, KdtNode] | None:
        """Cut across the longer side if possible, with `share` of the weight in the first part; None: one cell."""
        return next((halves for axis in self._axes() if (halves := self.cut(axis, share)) is not None), None)

    def split_by_space(self, parts: int) -> list[KdtNode]:
        """Cut into parts of nearly equal weight; fewer parts if the cells run out."""
        first = parts // 2
        halves = self.halve(first / parts) if parts > 1 else None
        if halves is None:
            return [self]
        return [*halves[0].split_by_space(first), *halves[1].split_by_space(parts - first)]

    def _axes(self) -> tuple[int, int]:
        """Return both axes, first the one along which the posts extend farther."""
        if not len(self.posts):
            return (0, 1)
        extent = np.ptp(self.grid.workload.positions[self.posts], axis=0)
        return (0, 1) if extent[0] >= extent[1] else (1, 0)

    def split_by_text(self, parts: int, split: TermSplitter) -> list[KdtNode]:
        """Divide the anchors among nodes with the same cells; conjunctions without an anchor go to the first."""
        if parts == 1:
            return [self]
        anchor_of = self.grid.workload.anchors[self.conjunctions]
        anchors = np.unique(anchor_of[anchor_of > 0])
        part_of = split(self.grid.workload, self.posts, anchors, parts, self._measure_terms(anchors))
        chosen = np.zeros(len(anchor_of), np.int64)
        chosen[anchor_of > 0] = part_of[np.searchsorted(anchors, anchor_of[anchor_of > 0])]
        return [
            replace(self, conjunctions=self.conjunctions[chosen == part], terms=anchors[part_of == part])
            for part in range(parts)
        ]

    def _measure_terms(self, anchors: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return the time that each anchor takes besides its posts, in units of the time for a post."""
        sample, work = self.grid.sample, self.grid.workload
        firsts, lengths = sample.starts[self.posts], np.diff(sample.starts)[self.posts]
        terms, hits = (take_rows(values, firsts, lengths)[0] for values in (sample.term, sample.hits))
        size = len(work.terms) + 1
        lookups = np.bincount(terms, minlength=size).astype(np.float64)
        found = np.bincount(terms, hits, size).astype(np.float64)
        held = np.bincount(work.anchors[self.conjunctions], minlength=size).astype(np.float64)
        updates: NDArray[np.float64] = held * work.updates_per_row
        times = self.grid.model.load(np.zeros(size), lookups, found, updates)
        return np.asarray(times[anchors] / self.grid.model.post_ns)


def _count_terms(
    values: NDArray[np.uint32], first: NDArray[np.int64], end: NDArray[np.int64], terms: int
) -> NDArray[np.float64]:
    """Count the terms of some rows; term 0 ("no term") does not count."""
    counts = np.bincount(take_rows(values, first, end - first)[0], minlength=terms + 1).astype(np.float64)
    counts[0] = 0
    return counts


@kernel(
    types.void,
    read(int64),
    read(int64),
    read(float64),
    read(int64),
    read(uint8),
    write(uint8),
    write(float64),
)
def _count_work(starts, terms, hits, posts, is_anchor, is_routed, totals):  # type: ignore[no-untyped-def]
    """Mark the posts that have an anchor, and count the anchors in all posts and what they find."""
    for number in range(uint64(posts.size)):
        post = uint64(posts[number])
        for pair in range(uint64(starts[post]), uint64(starts[post + _ONE])):
            if is_anchor[uint64(terms[pair])] != 0:
                is_routed[number] = uint8(1)
                totals[0] += 1.0
                totals[1] += hits[pair]
