"""A segment: the conjunctions of some subscriptions, compiled into flat arrays. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index import layout
from tidings.index.grid import finest_cells
from tidings.index.id_lookup import id_order
from tidings.index.spatial_postings import build_spatial_postings
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import bounding_boxes
from tidings.query.residual import EMPTY_RESIDUAL, write_residuals

UintArray = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Segment:
    """The arrays that a matcher reads (see `layout.py`), stored under their names, and the ids of subscriptions."""

    anchors: UintArray  # the terms that have a posting list, ascending
    anchor_start: UintArray
    second_term: UintArray
    third_fourth_term: UintArray
    residual_entries: UintArray  # the entries that have a residual, ascending
    residual_start: NDArray[np.uint64]
    residual_code: UintArray
    regions: NDArray[np.float64]  # rows of four, see query/geo/geometry.py
    entry_region: UintArray  # the region of each entry that has one; these entries come last
    cell_keys: NDArray[np.uint64]  # the posting lists of cells and terms, see spatial_postings.py
    cell_start: UintArray
    cell_postings: UintArray
    subscriber_start: UintArray  # entry e belongs to subscribers[subscriber_start[e]:subscriber_start[e+1]]
    subscribers: UintArray
    id_hash: NDArray[np.uint64]  # ascending; see id_lookup.py
    id_row: UintArray
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def array_names(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.name != "ids"]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in self.array_names()}

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values()) + int(self.ids.nbytes)

    def posting_start(self, term_count: int) -> UintArray:
        """Return where the posting list of each term starts: term t has ``[start[t], start[t + 1])``."""
        lengths = np.zeros(term_count + 2, np.uint32)
        lengths[self.anchors + 1] = np.diff(self.anchor_start)
        return np.cumsum(lengths, dtype=np.uint32)

    def renumber_by_entry(self) -> tuple[Segment, NDArray[np.intp]]:
        """Return the segment with subscriptions numbered in entry order, and their old numbers.

        Then matches of one post touch neighbouring memory.
        """
        rank = np.arange(len(self.subscribers))
        first = np.full(len(self), -1)
        first[self.subscribers[::-1]] = rank[::-1]
        in_entries = self.subscribers[first[self.subscribers] == rank]
        order = np.concatenate([in_entries, np.flatnonzero(first < 0)]).astype(np.intp)
        number = np.empty(len(self), np.uint32)
        number[order] = np.arange(len(self), dtype=np.uint32)
        ids = self.ids.take(pa.array(order))
        return replace(self, subscribers=number[self.subscribers], id_row=number[self.id_row], ids=ids), order


def build_segment(conjunctions: Conjunctions, ids: pa.Array) -> Segment:
    """Compile conjunctions whose terms are ordered, rarest first; equal conjunctions share an entry."""
    terms, starts, ends = conjunctions.terms, conjunctions.starts[:-1], conjunctions.starts[1:]
    residual = _with_overflow(conjunctions.residual, ends - starts)
    entry_of, chosen = _distinct(terms, starts, ends, _requirement(conjunctions, residual))
    keys = np.empty(len(chosen), np.uint64)
    layout.fill_sort_keys(terms, starts, ends, chosen, keys)
    order, spatial_count = _order(conjunctions, chosen, keys)
    chosen, keys = chosen[order], keys[order]
    first = len(chosen) - spatial_count
    second_term, third_fourth_term = np.empty(len(chosen), np.uint32), np.empty((len(chosen), 2), np.uint32)
    layout.fill_entries(terms, starts, ends, chosen, residual, second_term, third_fourth_term)
    entry_rank = np.empty(len(chosen), np.uint32)
    entry_rank[order] = np.arange(len(chosen), dtype=np.uint32)
    anchors, anchor_start = _postings(keys[:first])
    residual_entries, residual_start, residual_code = _residuals(conjunctions, terms, starts, ends, chosen, residual)
    entry_region = conjunctions.anchor_region[chosen[first:]].astype(np.uint32)
    spatial_terms = (_anchors(keys[first:]), second_term[first:])
    cells = build_spatial_postings(conjunctions.regions, entry_region, *spatial_terms, first)
    subscriber_start, subscribers = _subscribers(entry_rank[entry_of], conjunctions.subscription, len(chosen))
    id_hash, id_row = id_order(ids)
    return Segment(
        anchors=anchors,
        anchor_start=anchor_start,
        second_term=second_term,
        third_fourth_term=third_fourth_term,
        residual_entries=residual_entries,
        residual_start=residual_start,
        residual_code=residual_code,
        regions=conjunctions.regions.ravel(),
        entry_region=entry_region,
        cell_keys=cells.keys,
        cell_start=cells.starts,
        cell_postings=cells.postings,
        subscriber_start=subscriber_start,
        subscribers=subscribers,
        id_hash=id_hash,
        id_row=id_row,
        ids=ids,
    )


def _with_overflow(residual: UintArray, sizes: NDArray[np.uint64]) -> UintArray:
    """Give conjunctions with more terms than fit inline a residual even if they need nothing else: number 1."""
    numbered = np.where(residual > 0, residual + np.uint32(1), np.uint32(0))
    return np.where((residual == 0) & (sizes > layout.INLINE_TERMS), np.uint32(1), numbered)


def _requirement(conjunctions: Conjunctions, residual: UintArray) -> UintArray:
    """Number what a conjunction requires besides its terms, equal for equal requirements: residual or region."""
    region = len(conjunctions.residuals) + 2 + conjunctions.anchor_region
    is_region_alone = (conjunctions.residual == 0) & (conjunctions.anchor_region >= 0)
    return np.where(is_region_alone, region, residual).astype(np.uint32)


def _distinct(
    terms: UintArray, starts: NDArray[np.uint64], ends: NDArray[np.uint64], requirement: UintArray
) -> tuple[UintArray, UintArray]:
    """Return (the number of the distinct form of each conjunction, one conjunction per form)."""
    table = np.zeros(1 << max(4, (2 * len(ends)).bit_length()), np.uint32)
    numbers = np.empty(len(ends), np.uint32)
    count = layout.number_distinct(terms, starts, ends, requirement, table, numbers)
    firsts = table[table > 0] - np.uint32(1)
    chosen = np.empty(count, np.uint32)
    chosen[numbers[firsts]] = firsts
    return numbers, chosen


def _order(conjunctions: Conjunctions, chosen: UintArray, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], int]:
    """Return (the order of entries, how many at the end have a region).

    Entries are sorted by anchor. Those with a region come last, neighbours of one anchor next to each other, so that
    posting lists are read sequentially.
    """
    has_region = conjunctions.anchor_region[chosen] >= 0
    plain, spatial = np.flatnonzero(~has_region), np.flatnonzero(has_region)
    boxes, which = bounding_boxes(conjunctions.regions, conjunctions.anchor_region[chosen[spatial]])
    corner = np.zeros(len(spatial), np.int64)
    corner[which[::-1]] = finest_cells(boxes)[::-1]
    by_anchor = plain[np.argsort(keys[plain], kind="stable")]
    by_corner = spatial[np.lexsort((corner, _anchors(keys[spatial])))]
    return np.concatenate([by_anchor, by_corner]), len(spatial)


def _anchors(keys: NDArray[np.uint64]) -> UintArray:
    """Return the anchor of each entry, 0 without one."""
    terms = (keys >> np.uint64(32)).astype(np.uint32)
    return np.where(terms == layout.NO_TERM, np.uint32(0), terms)


def _postings(keys: NDArray[np.uint64]) -> tuple[UintArray, UintArray]:
    """Return (the anchors, where the posting list of each starts) from the sorted keys of the entries."""
    anchors = (keys >> np.uint64(32)).astype(np.uint32)
    first = np.flatnonzero(np.diff(anchors, prepend=np.uint32(0)))
    return anchors[first], np.append(first, len(anchors)).astype(np.uint32)


def _residuals(
    conjunctions: Conjunctions,
    terms: UintArray,
    starts: NDArray[np.uint64],
    ends: NDArray[np.uint64],
    chosen: UintArray,
    residual: UintArray,
) -> tuple[UintArray, NDArray[np.uint64], UintArray]:
    """Return (entries that have a residual, where each residual starts, the code)."""
    residual_entries = np.flatnonzero(residual[chosen]).astype(np.uint32)
    which = chosen[residual_entries]
    bases: list[Sequence[int]] = [(), EMPTY_RESIDUAL.encode(), *(base.encode() for base in conjunctions.residuals)]
    base_start = np.cumsum([0, *map(len, bases)]).astype(np.uint32)
    base_code = np.fromiter((number for base in bases for number in base), np.uint32, int(base_start[-1]))
    firsts, lasts = starts[which] + np.uint64(layout.INLINE_TERMS), ends[which]
    residual_start = np.zeros(len(which) + 1, np.uint64)
    arguments = (terms, firsts, lasts, residual[which], base_code, base_start, residual_start)
    write_residuals(*arguments, np.empty(0, np.uint32))
    code = np.empty(int(residual_start[-1]), np.uint32)
    write_residuals(*arguments, code)
    return residual_entries, residual_start, code


def _subscribers(entry: UintArray, subscription: UintArray, entries: int) -> tuple[UintArray, UintArray]:
    """Return (where the subscribers of each entry start, the subscribers)."""
    counts = np.zeros(entries + 1, np.uint32)
    subscribers = np.empty(len(subscription), np.uint32)
    used = layout.list_subscribers(entry, subscription, counts, subscribers, np.zeros((entries, 2), np.uint32))
    return counts, subscribers[:used]
