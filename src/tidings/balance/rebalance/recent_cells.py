"""Recent posts in the cells of a plan: what they match there, and the effect of splitting and joining cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidings.balance.rebalance.local_policy import CellLoad, TextPart
from tidings.balance.rebalance.shard_sample import Counts, ShardSample
from tidings.balance.spatial_fit import PostSample
from tidings.balance.term_assignment import split_by_metric
from tidings.balance.work_model import WorkModel, count_hits
from tidings.balance.workload import Workload
from tidings.index.reader import Index
from tidings.plan.grid_lines import GridLines
from tidings.plan.space import SpatialPlan
from tidings.ragged import sorted_unique, take_rows


@dataclass(frozen=True, slots=True)
class RecentCells:
    """Recent posts, analyzed by the index, and their cells; posts without a position are in one past the last."""

    workload: Workload
    cells: Counts
    post: Counts  # row of the post of each (post, term) pair; every post also has term 0 ("no term")
    term: Counts

    @classmethod
    def build(cls, index: Index, plan: SpatialPlan, posts: PostSample) -> RecentCells:
        texts, positions = posts
        none, boxes, starts = np.zeros(0, np.uint32), np.zeros((0, 4)), np.zeros(1, np.uint64)
        analyzed = index.analyzer().analyze(texts)
        terms, positions = index.vocabulary.terms(), np.ascontiguousarray(positions)
        workload = Workload(terms, analyzed, positions, none, boxes, none, starts)
        bounds = analyzed.bounds.astype(np.int64)
        post_terms, row_starts = take_rows(analyzed.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
        post = np.repeat(np.arange(len(positions)), np.diff(row_starts).astype(np.int64))
        pairs = sorted_unique(np.concatenate([post << 32 | post_terms, np.arange(len(positions)) << 32]))
        return cls(workload, _find_cells(plan.lines, positions), pairs >> 32, pairs & 0xFFFFFFFF)

    def with_plan(self, plan: SpatialPlan) -> RecentCells:
        """Return the same posts in the cells of another grid."""
        return replace(self, cells=_find_cells(plan.lines, self.workload.positions))

    def count_work(self, shard: ShardSample) -> NDArray[np.float64]:
        """Return per cell: posts, terms that the matcher looks up, and conjunctions that they find."""
        is_anchor = np.zeros(len(self.workload.terms) + 1)
        is_anchor[shard.anchors] = is_anchor[shard.free_anchors] = 1
        hits = self._count_hits(shard, np.arange(len(self.post)))
        values = (self.term == 0, is_anchor[self.term], hits)  # term 0 is in every post once
        cells = self.cells[self.post]
        return np.array([np.bincount(cells, value, shard.cells + 1) for value in values])

    def _count_hits(self, shard: ShardSample, pairs: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the number of conjunctions that each of these pairs of post and term finds."""
        post, term = self.post[pairs], self.term[pairs]
        row, positions = shard.row_of_cell[self.cells[post]], self.workload.positions
        hits = np.zeros(len(pairs))
        for number in np.unique(row).tolist():
            some, owned = np.flatnonzero(row == number), shard.owns(number, shard.anchors)
            anchors, boxes = shard.anchors[owned], np.ascontiguousarray(shard.boxes[owned])
            free = shard.free_anchors[shard.owns(number, shard.free_anchors)]
            hits[some] = count_hits(post[some], term[some], positions, anchors, boxes)
            hits[some] += np.bincount(free, minlength=len(self.workload.terms) + 1)[term[some]]
        return hits * shard.scale

    def split_terms(self, load: CellLoad, shard: ShardSample, parts: int, model: WorkModel) -> list[TextPart]:
        """Return a cell as parts with different terms; [] if the recent posts do not show how.

        Conjunctions without a term are in none of them.
        """
        anchors = shard.anchors_in(load.cell)
        distinct, counts = np.unique(anchors[anchors > 0], return_counts=True)
        posts = np.flatnonzero(self.cells == load.cell)
        if len(distinct) < parts or not len(posts):
            return []
        part_of = split_by_metric(self.workload, posts, distinct.astype(np.uint32), parts)
        whole = self._cost_terms(load.cell, shard, distinct, np.zeros_like(part_of), model)
        if not whole.sum():
            return []
        loads = self._cost_terms(load.cell, shard, distinct, part_of, model, parts) / whole.sum() * load.load
        sizes = np.bincount(part_of, counts, parts) * load.size_bytes / max(1, len(anchors))
        terms = self.workload.terms
        names = [tuple(terms[term - 1] for term in distinct[part_of == part].tolist()) for part in range(parts)]
        return [TextPart(float(loads[part]), round(sizes[part]), names[part]) for part in range(parts)]

    def estimate_join(
        self, loads: tuple[CellLoad, CellLoad], shards: tuple[ShardSample, ShardSample], model: WorkModel
    ) -> float:
        """Return the load of a cell on a matcher that has the parts of both matchers: shared posts are sent once."""
        cell = loads[0].cell
        anchors = [np.unique(shard.anchors_in(cell)) for shard in shards]
        posts = [self._count_routed(cell, some) for some in (*anchors, np.concatenate(anchors))]
        pairs = zip(shards, anchors, strict=True)
        costs = [self._cost_terms(cell, shard, some, np.zeros_like(some), model).sum() for shard, some in pairs]
        saved = model.post_ns * (posts[0] + posts[1] - posts[2]) / max(1.0, float(sum(costs)))
        return (loads[0].load + loads[1].load) * (1 - saved)

    def _cost_terms(
        self, cell: int, shard: ShardSample, terms: Counts, part_of: Counts, model: WorkModel, parts: int = 1
    ) -> NDArray[np.float64]:
        """Return the time of the recent posts in a cell for each part of these terms, on a matcher of its own."""
        part_of_term = np.full(len(self.workload.terms) + 1, -1)
        part_of_term[terms] = part_of
        pairs = np.flatnonzero((self.cells[self.post] == cell) & (part_of_term[self.term] >= 0))
        part = part_of_term[self.term[pairs]]
        routed = sorted_unique(part << 32 | self.post[pairs]) >> 32
        terms_ns = model.term_ns + model.hit_ns * self._count_hits(shard, pairs)
        return np.asarray(model.post_ns * np.bincount(routed, minlength=parts) + np.bincount(part, terms_ns, parts))

    def _count_routed(self, cell: int, anchors: Counts) -> int:
        """Return the number of these posts in a cell that are routed by one of the anchors."""
        posts = np.flatnonzero(self.cells == cell)
        return len(self.workload.filter_by_anchors(posts, np.unique(anchors).astype(np.uint32)))


def _find_cells(lines: GridLines, positions: NDArray[np.float64]) -> Counts:
    cells = lines.row(positions[:, 1]) * lines.columns + lines.column(positions[:, 0])
    return np.asarray(np.where(np.isnan(positions).any(axis=1), lines.columns * lines.rows, cells))
