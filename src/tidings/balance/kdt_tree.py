"""A node of the kdᵗ-tree: a rectangle of grid cells, and of the words asked for there all or some."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidings.balance.term_assignment import TextSplit
from tidings.balance.workload import Workload
from tidings.plan.grid_lines import Lines
from tidings.plan.load_model import LoadModel
from tidings.ragged import take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """A workload laid on a grid: the column and row of each post, the first and last ones of each box."""

    workload: Workload
    lines: Lines
    model: LoadModel
    post_cells: NDArray[np.int64]  # column, row
    box_cells: NDArray[np.int64]  # first column, first row, last column, last row
    weights: NDArray[np.float64]  # of the posts: cuts have equal weights on both sides

    @classmethod
    def of(
        cls, workload: Workload, lines: Lines, model: LoadModel, weights: NDArray[np.float64] | None = None
    ) -> Ground:
        """Posts weigh the same where nothing else is said."""
        lon, lat = workload.positions.T
        boxes = workload.boxes
        columns, rows = lines.column(boxes[:, ::2].ravel()), lines.row(boxes[:, 1::2].ravel())
        cells = np.column_stack([columns[::2], rows[::2], columns[1::2], rows[1::2]])
        if weights is None:
            weights = np.ones(len(workload.positions))
        return cls(workload, lines, model, np.column_stack([lines.column(lon), lines.row(lat)]), cells, weights)

    def root(self) -> Node:
        """All posts that have a position, and everything that is asked for."""
        cells = (0, 0, self.lines.columns, self.lines.rows)
        return Node(self, cells, self.workload.located, np.arange(len(self.workload.anchors)))


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """`cells` are first column, first row, and the column and row behind the last; `words` None for all words."""

    ground: Ground
    cells: tuple[int, int, int, int]
    posts: NDArray[np.intp]
    queries: NDArray[np.intp]
    words: NDArray[np.uint32] | None = None

    @property
    def anchors(self) -> NDArray[np.uint32]:
        return np.unique(self.ground.workload.anchors[self.queries])

    def sent(self) -> NDArray[np.intp]:
        """The posts a dispatcher would send for this node: those that say an anchor."""
        return self.ground.workload.reached(self.posts, self.anchors)

    def load(self) -> float:
        return self.ground.model.load(len(self.sent()), len(self.queries))

    def similarity(self) -> float:
        """The cosine of how often words are said by the posts and asked for by the conjunctions here."""
        work = self.ground.workload
        bounds = work.received.bounds[self.posts].astype(np.int64)
        said = np.bincount(_rows(work.received.terms, bounds[:, 0], bounds[:, 1]), minlength=len(work.terms) + 1)
        starts = work.asked_starts.astype(np.int64)
        asked = np.bincount(
            _rows(work.asked, starts[self.queries], starts[self.queries + 1]), minlength=len(work.terms) + 1
        )
        said[0] = asked[0] = 0
        norms = np.sqrt(float((said.astype(np.float64) ** 2).sum()) * float((asked.astype(np.float64) ** 2).sum()))
        return float(said.astype(np.float64) @ asked) / norms if norms else 0.0

    def halves(self, axis: int, share: float = 0.5) -> tuple[Node, Node] | None:
        """Cut between columns (axis 0) or rows (1), that share of the weight on the near side; None: no cut."""
        low, high = self.cells[axis], self.cells[axis + 2]
        if high - low < 2:
            return None
        cells, weights = self.ground.post_cells[self.posts, axis] - low, self.ground.weights[self.posts]
        behind = np.cumsum(np.bincount(cells, weights, high - low))
        cut = low + 1 + int(np.argmin(np.abs(behind[:-1] - share * behind[-1])))
        return self._part(axis, low, cut), self._part(axis, cut, high)

    def _part(self, axis: int, low: int, high: int) -> Node:
        cells = list(self.cells)
        cells[axis], cells[axis + 2] = low, high
        at, box = self.ground.post_cells[self.posts, axis], self.ground.box_cells[self.queries]
        posts = self.posts[(at >= low) & (at < high)]
        queries = self.queries[(box[:, axis] < high) & (box[:, axis + 2] >= low)]
        return replace(self, cells=(cells[0], cells[1], cells[2], cells[3]), posts=posts, queries=queries)

    def by_space(self, parts: int) -> list[Node]:
        """Cut into so many parts of nearly equal weight, across the longer side; fewer if cells run out."""
        if parts == 1:
            return [self]
        near = parts // 2
        cuts = [halves for axis in self._axes() if (halves := self.halves(axis, near / parts)) is not None]
        if not cuts:
            return [self]
        return [*cuts[0][0].by_space(near), *cuts[0][1].by_space(parts - near)]

    def _axes(self) -> tuple[int, int]:
        """The direction in which the posts reach farther, first."""
        if not len(self.posts):
            return (0, 1)
        spread = np.ptp(self.ground.workload.positions[self.posts], axis=0)
        return (0, 1) if spread[0] >= spread[1] else (1, 0)

    def by_text(self, parts: int, split: TextSplit) -> list[Node]:
        """Share the anchors out over so many nodes of the same cells; what has no anchor goes to the first."""
        if parts == 1:
            return [self]
        own = self.ground.workload.anchors[self.queries]
        anchors = np.unique(own[own > 0])
        part_of = split(self.ground.workload, self.posts, anchors, parts)
        chosen = np.zeros(len(own), np.int64)
        chosen[own > 0] = part_of[np.searchsorted(anchors, own[own > 0])]
        return [
            replace(self, queries=self.queries[chosen == part], words=anchors[part_of == part]) for part in range(parts)
        ]


def _rows(values: NDArray[np.uint32], firsts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    return take_rows(values, firsts, ends - firsts)[0]
