"""GI², the grid of inverted lists of PS²Stream: entries that ask for a region are found by its cells and a word.

An entry lies in the list of (cell, rarest word) for every cell its region touches; one without words in that of
(cell, 0). A word that few ask for needs no small cells: its entries are read faster than more lists would be found.

An item of a list is two numbers, of which the second is the entry. Nearly all entries are a word and a rectangle; they
come first in a list, and the first number is the part of the cell that the rectangle covers, so that most are judged
without looking further. Of the others the first number is the second-rarest word, or 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.index.grid import cells_of, sizes_for
from tidings.query.geo.geometry import boxes_of

_FEW = (1024, 32)  # up to so many entries of a word are in cells of the second size, of the third

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Lists:
    """List i has key ``cell << 32 | word``: ``items[starts[2 * i]:starts[2 * i + 1]]`` are judged by their parts, those
    from there to ``starts[2 * i + 2]`` by their entries."""

    keys: NDArray[np.uint64]
    starts: Words
    items: NDArray[np.uint32]


def build_lists(
    regions: NDArray[np.float64], asked: NDArray[np.integer], rarest: Words, second: Words, first: int
) -> Lists:
    """The lists of entries numbered from `first` on: of each the region it asks for and its two rarest words, or 0."""
    boxes, of = boxes_of(regions, asked)
    sizes = np.maximum(sizes_for(boxes, of, len(asked)), _least_sizes(rarest))
    cells, box, part = cells_of(boxes, sizes[of])
    which = of[box]
    is_plain = ~np.isnan(regions[asked, 0])[which] & (second[which] == 0)
    items = np.empty((len(which), 2), np.uint32)
    items[:, 0], items[:, 1] = np.where(is_plain, part, second[which]), first + which
    keys = (cells.astype(np.uint64) << np.uint64(32) | rarest[which]) << np.uint64(1) | ~is_plain
    order = np.argsort(keys, kind="stable")
    keys, items = keys[order], items[order]
    is_new = np.ones(len(keys), bool)  # several parts of a shape may touch a cell
    is_new[1:] = (keys[1:] != keys[:-1]) | (items[1:, 1] != items[:-1, 1])
    return _lists(keys[is_new], items[is_new])


def _lists(keys: NDArray[np.uint64], items: NDArray[np.uint32]) -> Lists:
    """From the sorted keys of the items, below each a bit that is set where an item is not judged by its part."""
    lists = keys >> np.uint64(1)
    firsts = np.flatnonzero(np.concatenate([np.ones(min(1, len(lists)), bool), lists[1:] != lists[:-1]]))
    starts = np.empty(2 * len(firsts) + 1, np.uint32)
    starts[:-1:2], starts[-1] = firsts, len(keys)
    starts[1::2] = starts[2::2] - np.add.reduceat(keys & np.uint64(1), firsts) if len(firsts) else 0
    return Lists(lists[firsts], starts, items)


def _least_sizes(words: Words) -> NDArray[np.int64]:
    """The size of cells below which an entry is not cut, by how many share its word; places alone lead precisely."""
    counts = np.bincount(words)
    least = (counts <= _FEW[0]).astype(np.int64) + (counts <= _FEW[1])
    least[:1] = 0
    return np.asarray(least[words])
