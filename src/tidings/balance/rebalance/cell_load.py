"""Measure the load of the cells of a plan: posts as counted by the routers, subscriptions as held by the shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.balance.cost_model import list_post_terms
from tidings.balance.rebalance.local_policy import CellLoad, TextHalf
from tidings.balance.spatial_fit import PostSample
from tidings.balance.term_assignment import split_by_metric
from tidings.balance.work_model import WorkModel, count_hits
from tidings.balance.workload import Workload
from tidings.index.decompile import decompile
from tidings.index.reader import Index, SegmentView
from tidings.plan.grid_overlap import CellRanges, cell_ranges, count_covering
from tidings.plan.space import SpatialPlan
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import concatenate
from tidings.query.geo.geometry import bounding_boxes

SAMPLE_SUBSCRIPTIONS = 50_000  # of all matchers together
_PRIOR_POSTS = 4  # weight of the average over all cells in the estimate of one cell
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardSample:
    """A sample of the conjunctions of one matcher. Each row stands for `scale` of them.

    A conjunction with several boxes has several rows.
    """

    plan: SpatialPlan
    boxes: NDArray[np.float64]
    ranges: CellRanges  # the cells that each box touches
    anchors: Counts
    is_owned: NDArray[np.bool_]  # by row of `SpatialPlan.matchers_of`: whether the matcher owns the anchor there
    row_of: Counts  # of each area
    regionless: float  # conjunctions without a region, which are in all cells
    scale: float
    bytes_per_conjunction: float

    def count_per_cell(self) -> NDArray[np.float64]:
        """Return the conjunctions per cell, without the regionless ones."""
        lines, row_of_cell = self.plan.lines, self.row_of[self.plan.area_of_cell]
        counts = np.zeros(len(row_of_cell))
        for row in np.unique(row_of_cell).tolist():
            covering = count_covering(self.ranges[self.is_owned[row]], lines.columns, lines.rows)
            in_row = row_of_cell == row
            counts[in_row] = covering[in_row] * self.scale
        return counts

    def anchors_in(self, cell: int) -> Counts:
        """Return the anchors of the conjunctions that touch a cell, one per row."""
        row, column = divmod(cell, self.plan.lines.columns)
        left, low, right, high = self.ranges.T
        is_inside = (left <= column) & (column <= right) & (low <= row) & (row <= high)
        anchors: Counts = self.anchors[is_inside & self.is_owned[self.row_of[self.plan.area_of_cell[cell]]]]
        return anchors


def sample_shards(index: Index, plan: SpatialPlan, max_subscriptions: int = SAMPLE_SUBSCRIPTIONS) -> list[ShardSample]:
    """Return a sample of each shard, with at most `max_subscriptions` in total."""
    stored = sum(record.subscriptions for shard in index.manifest.shards for record in shard)
    step = max(1, -(-stored // max_subscriptions))
    row_of, matchers = plan.matchers_of(index.vocabulary.terms())
    return [_sample_shard(index, plan, matcher, step, row_of, matchers) for matcher in range(plan.matchers)]


def _sample_shard(
    index: Index, plan: SpatialPlan, matcher: int, step: int, row_of: Counts, matchers: NDArray[np.uint16]
) -> ShardSample:
    views = index.open_shard(matcher)
    parts = [(decompile(view.segment, _mask_unsampled(view, step)), view.segment.ids) for view in views]
    if not parts:
        no_rows = (np.zeros((0, 4)), np.zeros((0, 4), np.uint32), np.zeros(0, np.int64))
        return ShardSample(plan, *no_rows, np.zeros((len(matchers), 0), bool), row_of, 0.0, 1.0, 0.0)
    conjunctions, _ = concatenate(parts)
    rows = np.flatnonzero(conjunctions.anchor_region >= 0)
    boxes, which = bounding_boxes(conjunctions.regions, conjunctions.anchor_region[rows])
    anchors = anchor_terms(conjunctions).astype(np.int64)[rows[which]]
    size = sum(view.segment.size_bytes for view in views) / max(1, sum(len(view.segment) for view in views))
    regionless = float(step * (len(conjunctions) - len(rows)))
    is_owned = matchers[:, anchors] == matcher
    ranges = cell_ranges(plan.lines, boxes)
    return ShardSample(plan, boxes, ranges, anchors, is_owned, row_of, regionless, float(step), size)


def _mask_unsampled(view: SegmentView, step: int) -> NDArray[np.uint8]:
    """Mask removed subscriptions, and all others except every `step`-th one."""
    is_skipped = (np.arange(len(view.segment)) % step > 0).astype(np.uint8)
    return is_skipped | view.removed if len(view.removed) else is_skipped


def measure_cells(
    shards: Sequence[ShardSample], plan: SpatialPlan, cells: Counts, by_cell: Counts
) -> list[list[CellLoad]]:
    """Return the loads of the cells of each matcher. `cells` and `by_cell` are those of `RoutingStats`."""
    is_text = np.array([area.is_shared for area in plan.areas])[plan.area_of_cell]
    count = len(plan.area_of_cell)
    loads = []
    for matcher, shard in enumerate(shards):
        of_matcher = (cells % plan.matchers == matcher) & (cells // plan.matchers < count)
        posts = np.bincount(cells[of_matcher] // plan.matchers, by_cell[of_matcher], count)
        counts = shard.count_per_cell()
        held = counts + shard.regionless
        sizes = np.rint(counts * shard.bytes_per_conjunction).astype(np.int64)
        used = np.flatnonzero((posts > 0) & (held > 0)).tolist()
        loads.append([CellLoad(c, posts[c], held[c], int(sizes[c]), bool(is_text[c])) for c in used])
    return loads


def add_work(
    matchers: Sequence[Sequence[CellLoad]], shards: Sequence[ShardSample], recent: RecentCells, model: WorkModel
) -> list[list[CellLoad]]:
    """Return the cells with the time they take, estimated from what recent posts match in them.

    The average over all cells counts as `_PRIOR_POSTS` posts, so that cells with few posts have a usable estimate.
    """
    samples = [recent.count_work(shard) for shard in shards]
    pairs = 0.0
    for cells, (posts, _, _) in zip(matchers, samples, strict=True):
        subscriptions = np.zeros(len(posts))
        subscriptions[[cell.cell for cell in cells]] = [cell.subscriptions for cell in cells]
        pairs += float(posts @ subscriptions)
    totals = np.sum([sample.sum(axis=1) for sample in samples], axis=0)
    average = _AverageWork(totals[1] / max(1.0, totals[0]), totals[2] / max(1.0, pairs))
    return [
        [_estimate_cell(cell, sample[:, cell.cell], average, model) for cell in cells]
        for sample, cells in zip(samples, matchers, strict=True)
    ]


class _AverageWork(NamedTuple):
    """Averages over all cells: lookups per post, hits per post and subscription of its cell."""

    lookups: float
    hits: float


def _estimate_cell(cell: CellLoad, sample: NDArray[np.float64], average: _AverageWork, model: WorkModel) -> CellLoad:
    posts, lookups, hits = sample.tolist()
    lookups = (lookups + _PRIOR_POSTS * average.lookups) / (posts + _PRIOR_POSTS)
    hits = (hits + _PRIOR_POSTS * average.hits * cell.subscriptions) / (posts + _PRIOR_POSTS)
    return replace(cell, work=cell.posts * (model.post_ns + model.term_ns * lookups + model.hit_ns * hits))


@dataclass(frozen=True, slots=True)
class RecentCells:
    """Recent posts, analyzed by the index, and their cells: they show the effect of splitting and joining cells."""

    workload: Workload
    cells: Counts

    @classmethod
    def build(cls, index: Index, plan: SpatialPlan, posts: PostSample) -> RecentCells:
        texts, positions = posts
        located = np.flatnonzero(~np.isnan(positions).any(axis=1))
        analyzed = index.analyzer().analyze(texts.take(located))
        lon, lat = positions[located].T
        cells = plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon)
        none, boxes, starts = np.zeros(0, np.uint32), np.zeros((0, 4)), np.zeros(1, np.uint64)
        terms = index.vocabulary.terms()
        return cls(Workload(terms, analyzed, positions[located], none, boxes, none, starts), cells)

    def count_work(self, shard: ShardSample) -> NDArray[np.float64]:
        """Return per cell: posts, terms that the matcher looks up, and conjunctions that they find."""
        post, term = list_post_terms(self.workload)
        row = shard.row_of[shard.plan.area_of_cell[self.cells]]
        hits = np.zeros(len(post))
        for number in np.unique(row).tolist():
            pairs, owned = np.flatnonzero(row[post] == number), shard.is_owned[number]
            anchors, boxes = shard.anchors[owned], shard.boxes[owned]
            hits[pairs] = count_hits(post[pairs], term[pairs], self.workload.positions, anchors, boxes)
        is_anchor = np.zeros(len(self.workload.terms) + 1)
        is_anchor[shard.anchors] = 1
        values = (np.ones(len(post)) * (term == 0), is_anchor[term], hits * shard.scale)  # term 0 is in every post once
        return np.array([np.bincount(self.cells[post], value, len(shard.plan.area_of_cell)) for value in values])

    def count_routed(self, cell: int, anchors: Counts) -> int:
        """Return the number of these posts in a cell that are routed by one of the anchors."""
        posts = np.flatnonzero(self.cells == cell)
        return len(self.workload.filter_by_anchors(posts, np.unique(anchors).astype(np.uint32)))

    def split_terms(self, load: CellLoad, shard: ShardSample) -> tuple[CellLoad, tuple[list[bytes], list[bytes]]]:
        """Return the cell with the loads of two halves of its terms, and these terms; unchanged if not possible."""
        anchors = shard.anchors_in(load.cell)
        distinct, counts = np.unique(anchors[anchors > 0], return_counts=True)
        before = self.count_routed(load.cell, anchors)
        if len(distinct) < 2 or not before:
            return load, ([], [])
        posts = np.flatnonzero(self.cells == load.cell)
        part = split_by_metric(self.workload, posts, distinct.astype(np.uint32), 2)
        held = np.bincount(part, counts, 2)
        held[int(np.argmax(held))] += len(anchors) - int(counts.sum())  # those without a term stay in the larger half
        routed = [self.count_routed(load.cell, distinct[part == half]) * load.posts / before for half in (0, 1)]
        first, second = (
            TextHalf(
                posts, rows * shard.scale + shard.regionless, round(rows * shard.scale * shard.bytes_per_conjunction)
            )
            for posts, rows in zip(routed, held, strict=True)
        )
        terms = self.workload.terms
        texts = tuple([terms[term - 1] for term in distinct[part == half].tolist()] for half in (0, 1))
        return replace(load, halves=(first, second)), (texts[0], texts[1])

    def estimate_join(self, load: CellLoad, shard: ShardSample, other: ShardSample) -> CellLoad:
        """Return the cell with the number of posts that both matchers together would be sent for it."""
        anchors = shard.anchors_in(load.cell)
        before = self.count_routed(load.cell, anchors)
        if not before:
            return load
        joined = self.count_routed(load.cell, np.concatenate([anchors, other.anchors_in(load.cell)]))
        return replace(load, joined_posts=joined * load.posts / before)
