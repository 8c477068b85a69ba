"""GI², the grid of inverted lists of PS²Stream: entries that ask for a region are found by its cells and a word.

An entry lies in the list of (cell, rarest word) for every cell its region touches; one without words in that of
(cell, 0). A word that few ask for needs no small cells: its entries are read faster than more lists would be found.

An item of a list is two numbers, so that most entries are judged without looking further: the part of the cell that
the entry's box covers, or the second-rarest word where there is one; and the entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.index.grid import WHOLE, cells_of, sizes_for
from tidings.index.shape import boxes_of

ASKS_MORE = np.uint32(1 << 31)  # the first number of an item is a word
IS_ROUGH = np.uint32(1 << 30)  # who lies in the box may still lie outside the region
ENTRY = np.uint32((1 << 30) - 1)
_FEW = (1024, 32)  # up to so many entries of a word are in cells of the second size, of the third

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Lists:
    """The items of list i, which has key ``cell << 32 | word``, are ``items[starts[i]:starts[i + 1]]``."""

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
    is_rough, asks_more = np.isnan(regions[asked, 0])[which], second[which] > 0
    items = np.empty((len(which), 2), np.uint32)
    items[:, 0] = np.where(asks_more, second[which], np.where(is_rough, WHOLE, part))
    items[:, 1] = first + which | np.where(is_rough, IS_ROUGH, 0) | np.where(asks_more, ASKS_MORE, 0)
    keys = cells.astype(np.uint64) << np.uint64(32) | rarest[which]
    order = np.argsort(keys << np.uint64(1) | asks_more, kind="stable")
    keys, items = keys[order], items[order]
    is_new = np.ones(len(keys), bool)  # several parts of a region may touch a cell
    is_new[1:] = (keys[1:] != keys[:-1]) | (items[1:, 1] != items[:-1, 1])
    keys, items = keys[is_new], items[is_new]
    firsts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), bool), keys[1:] != keys[:-1]]))
    return Lists(keys[firsts], np.append(firsts, len(keys)).astype(np.uint32), items)


def _least_sizes(words: Words) -> NDArray[np.int64]:
    """The size of cells below which an entry is not cut, by how many share its word; places alone lead precisely."""
    counts = np.bincount(words)
    least = (counts <= _FEW[0]).astype(np.int64) + (counts <= _FEW[1])
    least[:1] = 0
    return np.asarray(least[words])
