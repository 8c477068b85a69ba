"""What the cells of a plan carry: posts as they were counted on the way, subscriptions as the shards hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.balance.cost_model import said
from tidings.balance.rebalance.local_policy import CellLoad, TextHalf
from tidings.balance.spatial_fit import Located
from tidings.balance.term_assignment import by_metric
from tidings.balance.work_model import WorkModel, find
from tidings.balance.workload import Workload
from tidings.index.decompile import decompile
from tidings.index.reader import Index, LiveSegment
from tidings.plan.grid_overlap import Rectangles, covered, rectangles
from tidings.plan.space import SpacePlan
from tidings.query.anchors import lead_terms
from tidings.query.conjunctions import joined
from tidings.query.geo.geometry import boxes_of

_USUAL = 4  # posts that what is found in general counts for
SAMPLE = 50_000  # subscriptions that are looked at, of all workers together
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Held:
    """Some of what a worker holds: the cells each conjunction touches and the word that leads to it.

    Each stands for `scale` of them. A conjunction of several boxes counts for each.
    """

    plan: SpacePlan
    boxes: NDArray[np.float64]
    touched: Rectangles
    leads: Counts
    owners: NDArray[np.bool_]  # for each row of `SpacePlan.workers_of` whether a conjunction is there for that
    row_of: Counts  # of each area
    free: float  # how many ask for no region: they lie in all cells
    scale: float
    bytes_each: float

    def asked(self) -> NDArray[np.float64]:
        """How many conjunctions of each cell the worker holds, those without a region not counted."""
        lines, area_of = self.plan.lines, self.plan.area_of_cell
        found = np.zeros(len(area_of))
        for row in np.unique(self.row_of[area_of]).tolist():
            own = covered(self.touched[self.owners[row]], lines.columns, lines.rows)
            here = self.row_of[area_of] == row
            found[here] = own[here] * self.scale
        return found

    def leads_in(self, cell: int) -> Counts:
        row, column = divmod(cell, self.plan.lines.columns)
        left, low, right, high = self.touched.T
        is_here = (left <= column) & (column <= right) & (low <= row) & (row <= high)
        found: Counts = self.leads[is_here & self.owners[self.row_of[self.plan.area_of_cell[cell]]]]
        return found


def held_by(index: Index, plan: SpacePlan, most: int = SAMPLE) -> list[Held]:
    """What each worker holds, by a sample of so many subscriptions at most."""
    stored = sum(record.subscriptions for shard in index.manifest.shards for record in shard)
    step = max(1, -(-stored // most))
    row_of, workers = plan.workers_of(index.vocabulary.terms())
    return [_held(index, plan, worker, step, row_of, workers) for worker in range(plan.workers)]


def _held(index: Index, plan: SpacePlan, worker: int, step: int, row_of: Counts, workers: NDArray[np.uint16]) -> Held:
    live = index.shard(worker)
    parts = [(decompile(one.segment, _left_out(one, step)), one.segment.ids) for one in live]
    if not parts:
        none = np.zeros(0, np.int64)
        nothing = (np.zeros((0, 4)), np.zeros((0, 4), np.uint32), none, np.zeros((len(workers), 0), bool))
        return Held(plan, *nothing, row_of, 0.0, 1.0, 0.0)
    conjunctions, _ = joined(parts)
    rows = np.flatnonzero(conjunctions.anchor_region >= 0)
    boxes, which = boxes_of(conjunctions.regions, conjunctions.anchor_region[rows])
    leads = lead_terms(conjunctions).astype(np.int64)[rows[which]]
    size = sum(one.segment.size_bytes for one in live) / max(1, sum(len(one.segment) for one in live))
    free = float(step * (len(conjunctions) - len(rows)))
    owners = workers[:, leads] == worker
    return Held(plan, boxes, rectangles(plan.lines, boxes), leads, owners, row_of, free, float(step), size)


def _left_out(live: LiveSegment, step: int) -> NDArray[np.uint8]:
    """Those that are gone, and of the others all but every so manyth."""
    is_left_out = (np.arange(len(live.segment)) % step > 0).astype(np.uint8)
    return is_left_out | live.removed if len(live.removed) else is_left_out


def cell_loads(held: Sequence[Held], plan: SpacePlan, cells: Counts, by_cell: Counts) -> list[list[CellLoad]]:
    """For each worker what its cells carry. `cells` and `by_cell` are as `Noted` has them."""
    is_text = np.array([area.is_shared for area in plan.areas])[plan.area_of_cell]
    count = len(plan.area_of_cell)
    found = []
    for worker, own in enumerate(held):
        here = (cells % plan.workers == worker) & (cells // plan.workers < count)
        posts = np.bincount(cells[here] // plan.workers, by_cell[here], count)
        asked = own.asked()
        carrying = np.flatnonzero((posts > 0) & (asked + own.free > 0)).tolist()
        sizes = np.rint(asked * own.bytes_each).astype(np.int64)
        found.append([CellLoad(c, posts[c], asked[c] + own.free, int(sizes[c]), bool(is_text[c])) for c in carrying])
    return found


def with_work(
    workers: Sequence[Sequence[CellLoad]], held: Sequence[Held], recent: Recent, model: WorkModel
) -> list[list[CellLoad]]:
    """The same cells with the time they take, by what recent posts find in them.

    Where few of these lie in a cell, what posts find for each subscription there in general counts too.
    """
    seen = [recent.seen_by(own) for own in held]
    asked = [np.zeros(len(posts)) for posts, _, _ in seen]
    for own, all_asked in zip(workers, asked, strict=True):
        all_asked[[cell.cell for cell in own]] = [cell.subscriptions for cell in own]
    pairs = sum(float(posts @ all_asked) for (posts, _, _), all_asked in zip(seen, asked, strict=True))
    totals = np.sum([one.sum(axis=1) for one in seen], axis=0)
    usual = _Usual(totals[1] / max(1.0, totals[0]), totals[2] / max(1.0, pairs))
    return [
        [_with_work(cell, one[:, cell.cell], usual, model) for cell in own]
        for one, own in zip(seen, workers, strict=True)
    ]


class _Usual(NamedTuple):
    """In general: words that are looked up for a post, and what a post finds for each subscription of its cell."""

    words: float
    found: float


def _with_work(cell: CellLoad, seen: NDArray[np.float64], usual: _Usual, model: WorkModel) -> CellLoad:
    posts, words, found = seen.tolist()
    words = (words + _USUAL * usual.words) / (posts + _USUAL)
    found = (found + _USUAL * usual.found * cell.subscriptions) / (posts + _USUAL)
    return replace(cell, work=cell.posts * (model.post_ns + model.word_ns * words + model.found_ns * found))


@dataclass(frozen=True, slots=True)
class Recent:
    """Posts of late as the index receives them, and the cell of each: they tell what sharing words out would do."""

    workload: Workload
    cells: Counts

    @classmethod
    def of(cls, index: Index, plan: SpacePlan, posts: Located) -> Recent:
        texts, positions = posts
        known = np.flatnonzero(~np.isnan(positions).any(axis=1))
        received = index.receiver().receive(texts.take(known))
        cells = plan.lines.row(positions[known, 1]) * plan.lines.columns + plan.lines.column(positions[known, 0])
        none, boxes, starts = np.zeros(0, np.uint32), np.zeros((0, 4)), np.zeros(1, np.uint64)
        return cls(Workload(index.vocabulary.terms(), received, positions[known], none, boxes, none, starts), cells)

    def seen_by(self, own: Held) -> NDArray[np.float64]:
        """Of each cell: how many of these posts lie there, how many of their words a worker looks up, and how many of
        its conjunctions they find by these."""
        post, word = said(self.workload)
        row = own.row_of[own.plan.area_of_cell[self.cells]]
        found = np.zeros(len(post))
        for number in np.unique(row).tolist():
            here, mine = np.flatnonzero(row[post] == number), own.owners[number]
            found[here] = find(post[here], word[here], self.workload.positions, own.leads[mine], own.boxes[mine])
        is_asked = np.zeros(len(self.workload.terms) + 1)
        is_asked[own.leads] = 1
        each = (np.ones(len(post)) * (word == 0), is_asked[word], found * own.scale)  # every post says 0 once
        return np.array([np.bincount(self.cells[post], some, len(own.plan.area_of_cell)) for some in each])

    def reached(self, cell: int, leads: Counts) -> int:
        """How many of these posts in a cell are sent for these words."""
        posts = np.flatnonzero(self.cells == cell)
        return len(self.workload.reached(posts, np.unique(leads).astype(np.uint32)))

    def halves(self, load: CellLoad, own: Held) -> tuple[CellLoad, tuple[list[bytes], list[bytes]]]:
        """What a cell would carry with its words shared out over two, and these words; as it is if that cannot be."""
        leads = own.leads_in(load.cell)
        words, counts = np.unique(leads[leads > 0], return_counts=True)
        before = self.reached(load.cell, leads)
        if len(words) < 2 or not before:
            return load, ([], [])
        posts = np.flatnonzero(self.cells == load.cell)
        part = by_metric(self.workload, posts, words.astype(np.uint32), 2)
        wordless = len(leads) - int(counts.sum())
        held = np.bincount(part, counts, 2)
        held[int(np.argmax(held))] += wordless  # it stays with the larger half
        sent = [self.reached(load.cell, words[part == half]) * load.posts / before for half in (0, 1)]
        halves = tuple(
            TextHalf(sent[half], held[half] * own.scale + own.free, round(held[half] * own.scale * own.bytes_each))
            for half in (0, 1)
        )
        terms = self.workload.terms
        texts = tuple([terms[word - 1] for word in words[part == half].tolist()] for half in (0, 1))
        return replace(load, halves=(halves[0], halves[1])), (texts[0], texts[1])

    def joined(self, load: CellLoad, own: Held, other: Held) -> CellLoad:
        """How many posts would be sent for what two workers have of a cell whose words are shared out."""
        leads = own.leads_in(load.cell)
        before = self.reached(load.cell, leads)
        if not before:
            return load
        together = self.reached(load.cell, np.concatenate([leads, other.leads_in(load.cell)]))
        return replace(load, joined_posts=together * load.posts / before)
