"""GI², the grid of inverted lists of PS²Stream: entries that ask for a region are found by its cells and a word.

An entry lies in the list of (cell, rarest word) for every cell its region touches; one without words in that of
(cell, 0). Cells come in three sizes, and a region is cut into the smallest that few of them cover, so that a town and
a continent both take little room; a post lies in one cell of each size. Lists are found through a hash table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write

COLUMNS, ROWS = 360, 180
CELLS = COLUMNS * ROWS  # of one degree: what posts are routed by
PER_DEGREE = (8.0, 1.0, 1.0 / 15.0)  # cells of each size along a degree
SIZES = len(PER_DEGREE)
MAX_CELLS = 64  # more than these of one size and the next is taken
_SIZE_SHIFT = 28  # a cell is its size and, below, its number among those of its size
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_WORD_BITS = np.uint64(32)

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Lists:
    """The entries of list i, which has key ``cell << 32 | word``, are ``entries[starts[i]:starts[i + 1]]``."""

    keys: NDArray[np.uint64]
    starts: Words
    entries: Words


def build_lists(cells: NDArray[np.int64], words: Words, entries: Words) -> Lists:
    """Lists from (cell, word, entry) side by side; what occurs twice is listed once."""
    keys = cells.astype(np.uint64) << _WORD_BITS | words
    order = np.lexsort((entries, keys))
    keys, entries = keys[order], entries[order]
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (keys[1:] != keys[:-1]) | (entries[1:] != entries[:-1])
    keys, entries = keys[is_new], entries[is_new]
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, np.intp)
    return Lists(keys[firsts], np.append(firsts, len(keys)).astype(np.uint32), entries)


def cells_of(
    boxes: NDArray[np.float64], which: NDArray[np.intp], count: int
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """(cells, to which of `count` regions each belongs) for boxes and the region each is a part of."""
    level = np.full(count, SIZES - 1)
    for size in reversed(range(SIZES - 1)):
        level[np.bincount(which, _extent(boxes, size)[2], count) <= MAX_CELLS] = size
    found = [_cut(boxes, which, np.flatnonzero(level[which] == size), size) for size in range(SIZES)]
    return np.concatenate([cells for cells, _ in found]), np.concatenate([of for _, of in found])


def _cut(
    boxes: NDArray[np.float64], which: NDArray[np.intp], chosen: NDArray[np.intp], size: int
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    first, spans, counts = _extent(boxes[chosen], size)
    rows = np.repeat(np.arange(len(chosen)), counts)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    column = first[rows, 0] + nth % spans[rows]
    row = first[rows, 1] + nth // spans[rows]
    return size << _SIZE_SHIFT | (row * _columns(size) + column), which[chosen][rows]


def _extent(boxes: NDArray[np.float64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(first column and row, number of columns, number of cells) of each box."""
    most = np.array([_columns(size), _rows(size)]) - 1
    cells = [np.floor((boxes[:, side : side + 2] + [180.0, 90.0]) * PER_DEGREE[size]) for side in (0, 2)]
    first, last = (np.clip(cell.astype(np.int64), 0, most) for cell in cells)
    spans = last - first + 1
    return first, spans[:, 0], spans[:, 0] * spans[:, 1]


def _columns(size: int) -> int:
    return round(360 * PER_DEGREE[size])


def _rows(size: int) -> int:
    return round(180 * PER_DEGREE[size])


def degree_cells(cells: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The one-degree cells that cells of any size touch."""
    size, number = (
        (cells >> np.uint64(_SIZE_SHIFT)).astype(np.int64),
        (cells & np.uint64((1 << 28) - 1)).astype(np.int64),
    )
    found = []
    for one in range(SIZES):
        row, column = np.divmod(number[size == one], _columns(one))
        wide = max(1, round(1 / PER_DEGREE[one]))
        steps = np.arange(wide)
        columns = np.floor(column / PER_DEGREE[one]).astype(np.int64)[:, None, None] + steps[None, None, :]
        rows = np.floor(row / PER_DEGREE[one]).astype(np.int64)[:, None, None] + steps[None, :, None]
        found.append((np.minimum(rows, ROWS - 1) * COLUMNS + np.minimum(columns, COLUMNS - 1)).ravel())
    return np.unique(np.concatenate(found))


@inlined
def on_globe(lon, lat):  # type: ignore[no-untyped-def]
    return lon >= -180.0 and lon <= 180.0 and lat >= -90.0 and lat <= 90.0


@inlined
def cell_at(lon, lat):  # type: ignore[no-untyped-def]
    """The one-degree cell of a point, which must lie on the globe."""
    column = min(uint64(COLUMNS - 1), uint64(np.floor(lon + 180.0)))
    row = min(uint64(ROWS - 1), uint64(np.floor(lat + 90.0)))
    return row * uint64(COLUMNS) + column


@inlined
def sized_cell(lon, lat, size):  # type: ignore[no-untyped-def]
    """The cell of a size that holds a point, which must lie on the globe."""
    per_degree = 8.0 if size == 0 else (1.0 if size == 1 else 1.0 / 15.0)
    columns = uint64(2880) if size == 0 else (uint64(360) if size == 1 else uint64(24))
    column = min(columns - _ONE, uint64(np.floor((lon + 180.0) * per_degree)))
    row = min(columns // uint64(2) - _ONE, uint64(np.floor((lat + 90.0) * per_degree)))
    return uint64(size) << uint64(_SIZE_SHIFT) | (row * columns + column)


def hash_table(keys: NDArray[np.uint64]) -> Words:
    """To find a list by its key: the number of the list plus one, or 0."""
    table = np.zeros(1 << max(2, (2 * len(keys)).bit_length()), np.uint32)
    _fill(keys, table)
    return table


@inlined
def slot_of(key, mask):  # type: ignore[no-untyped-def]
    mixed = key * _MIX
    return (mixed ^ (mixed >> uint64(29))) * _MIX >> uint64(20) & mask


@kernel(types.void, read(uint64), write(uint32))
def _fill(keys, table):  # type: ignore[no-untyped-def]
    mask = uint64(table.size - 1)
    for number in range(uint64(keys.size)):
        slot = slot_of(keys[number], mask)
        while table[slot] != 0:
            slot = (slot + _ONE) & mask
        table[slot] = uint32(number + _ONE)


@inlined
def find_list(table, keys, key):  # type: ignore[no-untyped-def]
    """The number of a list plus one; 0 when there is none."""
    mask = uint64(table.size - 1)
    slot = slot_of(key, mask)
    while table[slot] != 0 and keys[uint64(table[slot]) - _ONE] != key:
        slot = (slot + _ONE) & mask
    return uint64(table[slot])


@kernel(types.void, read(float64), write(uint64, 2))
def cells_at(positions, cells):  # type: ignore[no-untyped-def]
    """The cell of every size each post lies in, as the upper half of a key; all ones off the globe."""
    for post in range(uint64(cells.shape[0])):
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        for size in range(uint64(SIZES)):
            cells[post, size] = sized_cell(lon, lat, size) << _WORD_BITS if on_globe(lon, lat) else ~_ZERO
