"""Routing by spatial plan: PS²Stream's gridᵗ.

The cell of a post determines its area; area and term determine the matcher (H1). A term that is not an anchor in the
area (not in H2) is ignored, and a post without anchors is dropped. With two active plans, both route every post.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import float64, types, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import build_hash_table, find_postings, on_globe
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index, SegmentView
from tidings.jit import inline, kernel, read, write
from tidings.plan.space import SpatialPlan
from tidings.ragged import sorted_unique
from tidings.routing.router import RoutedBatch, Router, count_outputs, count_spread, slice_batches
from tidings.routing.shed import ShedDecision
from tidings.text.analyzer import COMPANION, AnalyzedBatch
from tidings.text.byte_masks import lowest_bit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_IN_SOME_AREAS, _EVERYWHERE = np.uint8(1), np.uint8(2)
_NO_SHEDDING = ShedDecision()


def open_router(index: Index) -> Router | SpatialRouter:
    """Return the router for the plan of an index."""
    plan = index.manifest.plan
    return SpatialRouter(index) if plan is not None and plan.spatial_file else Router(index)


class SpatialRouter:
    """Routes by the grid of a spatial plan and the anchors of an index version."""

    def __init__(self, index: Index) -> None:
        plan = index.manifest.plan
        assert plan is not None
        self.matchers = plan.matchers
        self._width = (self.matchers + 63) // 64
        views = [view for matcher in range(self.matchers) for view in index.open_shard(matcher)]
        terms = index.vocabulary.terms()
        files = [(plan.spatial_file, False)] + [(plan.previous_file, True)] * bool(plan.previous_file)
        self._grids = [
            _Grid(
                cached_spatial_plan(index.folder / file), terms, [v for v in views if v.by_previous_plan == is_previous]
            )
            for file, is_previous in files
        ]

    @property
    def size_bytes(self) -> int:
        """Memory of H1 and H2 in bytes."""
        return sum(grid.size_bytes for grid in self._grids)

    def route(
        self, batch: AnalyzedBatch, positions: NDArray[np.float64], shed: ShedDecision = _NO_SHEDDING
    ) -> RoutedBatch:
        """Return the posts of every matcher that receives any, with all their terms (`MatcherBatch`)."""
        assert not shed.is_on, "only word plans support shedding"
        bits = np.zeros((len(batch), self._width), np.uint64)
        matcher_of = np.zeros((len(self._grids), len(batch.terms)), np.uint32)
        cells = [grid.route(batch, positions, bits, row) for grid, row in zip(self._grids, matcher_of, strict=True)]
        sizes = np.zeros((2, self.matchers), np.uint64)
        count_outputs(batch.bounds, bits, sizes)
        offsets = np.concatenate([np.zeros((2, 1), np.uint64), np.cumsum(sizes, axis=1, dtype=np.uint64)], axis=1)
        rows = np.empty((2, int(offsets[0, -1])), np.uint32)
        terms = np.empty(int(offsets[1, -1]), np.uint32)
        ends = offsets.copy()
        _distribute(batch.terms, batch.bounds, matcher_of[0], matcher_of[-1], bits, ends, rows, terms)
        batches = slice_batches(offsets, ends, rows, terms)
        return RoutedBatch(batches, None, count_spread(bits, self.matchers), cells[0])


class _Grid:
    """One plan, and the anchors of the subscriptions that were placed by it."""

    def __init__(self, plan: SpatialPlan, terms: Sequence[bytes], views: Sequence[SegmentView]) -> None:
        self._lines = (plan.lines.lons, plan.lines.lats)
        self._area_of = np.append(plan.area_of_cell, np.uint32(plan.unlocated_area))
        row_of, self._matchers = plan.matchers_of(terms)
        self._row_of, self._former_id_of = row_of.astype(np.uint32), plan.former_ids
        self._keys = sorted_unique(
            np.concatenate([np.zeros(0, np.uint64), *(view.spatial_anchors.keys for view in views)])
        )
        self._table = build_hash_table(self._keys)
        self._anchor_flags = np.zeros(len(terms) + 1, np.uint8)
        self._anchor_flags[(self._keys & np.uint64(0xFFFFFFFF)).astype(np.int64)] |= _IN_SOME_AREAS
        for view in views:
            self._anchor_flags[view.spatial_anchors.free_terms] |= _EVERYWHERE

    @property
    def size_bytes(self) -> int:
        arrays = (
            self._area_of,
            self._row_of,
            self._former_id_of,
            self._matchers,
            self._keys,
            self._table,
            self._anchor_flags,
        )
        return sum(array.nbytes for array in arrays)

    def route(
        self,
        batch: AnalyzedBatch,
        positions: NDArray[np.float64],
        bits: NDArray[np.uint64],
        matcher_of: NDArray[np.uint32],
    ) -> NDArray[np.uint32]:
        """Add the matchers of each post to its bits; return its cell, or one past the last if it has no position.

        `matcher_of` gets the matcher of each term that is an anchor where its post is, plus one.
        """
        cells = np.empty(len(batch), np.uint32)
        _cells(positions.ravel(), *self._lines, np.uint64(len(self._area_of) - 1), cells)
        areas = self._area_of[cells]
        anchors = (self._anchor_flags, self._table, self._keys)
        located = (self._former_id_of[areas], self._row_of[areas])
        _route(batch.terms, batch.bounds, *located, *anchors, self._matchers, matcher_of, bits)
        return cells


@inline
def _count_lines_below(lines, coordinate):  # type: ignore[no-untyped-def]
    """Return how many grid lines are not above a coordinate, as `GridLines` counts columns and rows."""
    low, high = _ZERO, uint64(lines.size)
    while low < high:
        middle = (low + high) >> _ONE
        if lines[middle] <= coordinate:
            low = middle + _ONE
        else:
            high = middle
    return low


@kernel(types.void, read(float64), read(float64), read(float64), uint64, write(uint32))
def _cells(positions, lons, lats, nowhere, cells):  # type: ignore[no-untyped-def]
    """Write the cell of each post; `nowhere` for posts without a position."""
    for post in range(uint64(cells.size)):
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        if on_globe(lon, lat):
            cell = _count_lines_below(lats, lat) * (uint64(lons.size) + _ONE) + _count_lines_below(lons, lon)
            cells[post] = uint32(cell)
        else:
            cells[post] = uint32(nowhere)


@inline
def _is_anchor_in(area, term, anchor_flags, table, keys):  # type: ignore[no-untyped-def]
    """Whether a term is an anchor in an area (H2)."""
    if anchor_flags[term] & _EVERYWHERE:
        return True
    return anchor_flags[term] != 0 and find_postings(table, keys, area << uint64(32) | term) != 0


@inline
def _set_matcher(matcher, post, bits):  # type: ignore[no-untyped-def]
    bits[post, matcher >> uint64(6)] |= _ONE << (matcher & uint64(63))


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32),
    read(uint8),
    read(uint32),
    read(uint64),
    read(uint16, 2),
    write(uint32),
    write(uint64, 2),
)
def _route(terms, bounds, areas, rows, anchor_flags, table, keys, matchers, matcher_of, bits):  # type: ignore[no-untyped-def]
    """Write the matchers of every post as bits; term 0 (no term) is the anchor of conjunctions with only a region.

    `areas` has the area of each post as the keys number it, `rows` its row in `matchers`.
    """
    for post in range(uint64(bounds.shape[0])):
        area, row = uint64(areas[post]), uint64(rows[post])
        if _is_anchor_in(area, _ZERO, anchor_flags, table, keys):
            _set_matcher(uint64(matchers[row, _ZERO]), post, bits)
        for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
            term = uint64(terms[at])
            if term != 0 and _is_anchor_in(area, term, anchor_flags, table, keys):
                _set_matcher(uint64(matchers[row, term]), post, bits)
                matcher_of[at] = uint32(matchers[row, term]) + uint32(1)


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32),
    read(uint64, 2),
    write(uint64, 2),
    write(uint32, 2),
    write(uint32),
)
def _distribute(terms, bounds, matcher_of, previous_matcher_of, bits, offsets, rows, output):  # type: ignore[no-untyped-def]
    """Write the posts of every matcher with all their terms; `offsets` has where its next post and terms go.

    A term is flagged as a companion at matchers to which neither plan assigns it.
    """
    for post in range(uint64(bounds.shape[0])):
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                to = offsets[_ONE, matcher]
                for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
                    is_anchor = (
                        uint64(matcher_of[at]) == matcher + _ONE or uint64(previous_matcher_of[at]) == matcher + _ONE
                    )
                    output[to] = terms[at] | (uint32(0) if is_anchor else COMPANION)
                    to += _ONE
                row = offsets[_ZERO, matcher]
                rows[_ZERO, row], rows[_ONE, row] = uint32(post), uint32(to)
                offsets[_ZERO, matcher], offsets[_ONE, matcher] = row + _ONE, to
                left &= left - _ONE
