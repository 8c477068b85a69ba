"""GI², the grid of posting lists of PS²Stream: entries with a region are found by a grid cell and a term.

An entry is in the posting list of (cell, anchor) for every cell that its region touches; one without terms in that of
(cell, 0). A term with few entries needs no small cells: reading its entries is faster than finding more lists.

A posting is two numbers, of which the second is the entry. Nearly all entries are a term and a rectangle. They come
first in a list, and their first number is the part of the cell that the rectangle covers, so that most are decided
without further reads. For the other entries the first number is the second least frequent term, or 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.index.grid import cells_of, sizes_for
from tidings.query.geo.geometry import bounding_boxes

_MAX_ENTRIES_FOR_SIZE = (1024, 32)  # up to this many entries per term use cells of the second size, of the third

UintArray = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class SpatialPostings:
    """List i has the key ``cell << 32 | term``.

    ``postings[starts[2 * i]:starts[2 * i + 1]]`` have a covered part, those up to ``starts[2 * i + 2]`` a second term.
    """

    keys: NDArray[np.uint64]
    starts: UintArray
    postings: UintArray


def build_spatial_postings(
    regions: NDArray[np.float64],
    entry_region: NDArray[np.integer],
    anchors: UintArray,
    second_term: UintArray,
    first: int,
) -> SpatialPostings:
    """Return the posting lists of entries numbered from `first`, given their regions, anchors and second terms."""
    boxes, which_box = bounding_boxes(regions, entry_region)
    sizes = np.maximum(sizes_for(boxes, which_box, len(entry_region)), _smallest_sizes(anchors))
    cells, box, part = cells_of(boxes, sizes[which_box])
    which = which_box[box]
    is_simple = ~np.isnan(regions[entry_region, 0])[which] & (second_term[which] == 0)
    postings = np.empty((len(which), 2), np.uint32)
    postings[:, 0], postings[:, 1] = np.where(is_simple, part, second_term[which]), first + which
    keys = (cells.astype(np.uint64) << np.uint64(32) | anchors[which]) << np.uint64(1) | ~is_simple
    order = np.argsort(keys, kind="stable")
    keys, postings = keys[order], postings[order]
    is_new = np.ones(len(keys), bool)  # several parts of a shape may touch a cell
    is_new[1:] = (keys[1:] != keys[:-1]) | (postings[1:, 1] != postings[:-1, 1])
    return _group_by_key(keys[is_new], postings[is_new])


def _group_by_key(keys: NDArray[np.uint64], postings: UintArray) -> SpatialPostings:
    """Return posting lists from sorted keys, whose lowest bit is set for postings with a second term."""
    lists = keys >> np.uint64(1)
    firsts = np.flatnonzero(np.concatenate([np.ones(min(1, len(lists)), bool), lists[1:] != lists[:-1]]))
    starts = np.empty(2 * len(firsts) + 1, np.uint32)
    starts[:-1:2], starts[-1] = firsts, len(keys)
    starts[1::2] = starts[2::2] - np.add.reduceat(keys & np.uint64(1), firsts) if len(firsts) else 0
    return SpatialPostings(lists[firsts], starts, postings)


def _smallest_sizes(anchors: UintArray) -> NDArray[np.int64]:
    """Return the smallest cell size of each entry, by the number of entries per anchor; 0 without an anchor."""
    counts = np.bincount(anchors)
    smallest = (counts <= _MAX_ENTRIES_FOR_SIZE[0]).astype(np.int64) + (counts <= _MAX_ENTRIES_FOR_SIZE[1])
    smallest[:1] = 0
    return np.asarray(smallest[anchors])
