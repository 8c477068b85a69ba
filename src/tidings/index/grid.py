"""The grid of GI²: which cells a region touches, how much of each, and in which cells a post lies.

Cells come in three sizes, and a region is cut into the smallest that few of them cover, so that a town and a continent
both take little room; a post lies in one cell of each size. Within a cell places are told in whole steps: what part of
it a box covers fits four bytes, and tells of nearly all posts whether they lie in the box.
"""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write

COLUMNS, ROWS = 360, 180
CELLS = COLUMNS * ROWS  # of one degree: what posts are routed by
PER_DEGREE = (8.0, 1.0, 1.0 / 15.0)  # cells of each size along a degree
SIZES = len(PER_DEGREE)
MAX_CELLS = 64  # more than these of one size and the next is taken
STEPS = 128  # of a cell, along each side
WHOLE = 0  # the part of a box that covers a cell from before it to beyond it
_SIZE_SHIFT = 28  # a cell is its size and, below, its number among those of its size
_STEP_BITS = np.uint64(7)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_WORD_BITS = np.uint64(32)
_FARTHEST = STEPS - 1  # the last two steps count as one, so that a distance leaves a bit of its byte free
_FREE_BITS = np.uint64(0x80808080)
_ONES = np.uint64(0x01010101)

Words = NDArray[np.uint32]


def sizes_for(boxes: NDArray[np.float64], which: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """The smallest cells that are not too many, for each of `count` regions, of boxes and the region each is of."""
    found = np.full(count, SIZES - 1)
    for size in reversed(range(SIZES - 1)):
        low, high = _steps(boxes, size)
        spans = high // STEPS - low // STEPS + 1
        found[np.bincount(which, spans[:, 0] * spans[:, 1], count) <= MAX_CELLS] = size
    return found


def cells_of(
    boxes: NDArray[np.float64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """(cells, the box each is touched by, the part of it that this box covers); `sizes` says which cells a box gets.

    A part is a byte for each side of the box, west, south, east, north: how many steps it is within the same side of
    the cell, from 1 on; 0 when it is not within.
    """
    found = [_cut(boxes, np.flatnonzero(sizes == size), size) for size in range(SIZES)]
    cells, rows, parts = (np.concatenate([one[place] for one in found]) for place in range(3))
    return cells, rows, parts


def finest_cells(boxes: NDArray[np.float64]) -> NDArray[np.int64]:
    """The smallest cell that holds the corner of each box, to put neighbours together."""
    corner = _steps(boxes, 0)[0] // STEPS
    return np.asarray(corner[:, 1] * _columns(0) + corner[:, 0])


def _cut(
    boxes: NDArray[np.float64], chosen: NDArray[np.intp], size: int
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    low, high = _steps(boxes[chosen], size)
    first = low // STEPS
    spans = high // STEPS - first + 1
    counts = spans[:, 0] * spans[:, 1]
    rows = np.repeat(np.arange(len(chosen)), counts)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    down, right = np.divmod(nth, spans[rows, 0])
    column, row = first[rows, 0] + right, first[rows, 1] + down
    part = np.zeros(len(rows), np.int64)
    for at, cell in ((0, column), (1, row)):
        behind = low[rows, at] - cell * STEPS + 1
        before = (cell + 1) * STEPS - high[rows, at]
        part |= np.clip(behind, 0, _FARTHEST) << 8 * at | np.clip(before, 0, _FARTHEST) << 16 + 8 * at
    return size << _SIZE_SHIFT | (row * _columns(size) + column), chosen[rows], part


def _steps(boxes: NDArray[np.float64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The steps (along, up) at which boxes of degrees start and end."""
    most = np.array([_columns(size), _rows(size)]) * STEPS - 1
    sides = (np.floor((boxes[:, at : at + 2] + [180.0, 90.0]) * (PER_DEGREE[size] * STEPS)) for at in (0, 2))
    low, high = (np.clip(side.astype(np.int64), 0, most) for side in sides)
    return low, high


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
def _place(lon, lat, size):  # type: ignore[no-untyped-def]
    """The cell of a size that holds a point on the globe, and below it the point's distances from its sides."""
    per_degree = PER_DEGREE[0] if size == 0 else (PER_DEGREE[1] if size == 1 else PER_DEGREE[2])
    columns = uint64(2880) if size == 0 else (uint64(360) if size == 1 else uint64(24))
    x = min((columns << _STEP_BITS) - _ONE, uint64(np.floor((lon + 180.0) * (per_degree * STEPS))))
    y = min((columns << (_STEP_BITS - _ONE)) - _ONE, uint64(np.floor((lat + 90.0) * (per_degree * STEPS))))
    cell = uint64(size) << uint64(_SIZE_SHIFT) | ((y >> _STEP_BITS) * columns + (x >> _STEP_BITS))
    return cell << _WORD_BITS | _distances(x) | _distances(y) << uint64(8)


@inlined
def _distances(step):  # type: ignore[no-untyped-def]
    """From the near and the far side of the cell, in steps from 1 on: the lowest byte and the one above the next."""
    within = step & uint64(STEPS - 1)
    near = min(uint64(_FARTHEST), within + _ONE)
    return near | min(uint64(_FARTHEST), uint64(STEPS) - within) << uint64(16)


@inlined
def ahead(place, part):  # type: ignore[no-untyped-def]
    """By how many steps a point lies further within its cell than each side of a box: one subtraction for all four."""
    return (uint64(uint32(place)) | _FREE_BITS) - uint64(part)


@inlined
def is_outside(ahead_of):  # type: ignore[no-untyped-def]
    """Whether a point that is so far ahead of the sides of a box certainly lies outside of it."""
    return ahead_of & _FREE_BITS != _FREE_BITS


@inlined
def is_within(ahead_of):  # type: ignore[no-untyped-def]
    """Whether it certainly lies in the box."""
    return (ahead_of - _ONES) & _FREE_BITS == _FREE_BITS


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
    return list_at(table, keys, key, slot_of(key, uint64(table.size - 1)))


@inlined
def list_at(table, keys, key, slot):  # type: ignore[no-untyped-def]
    """The same, by the slot that belongs to the key."""
    mask = uint64(table.size - 1)
    while table[slot] != 0 and keys[uint64(table[slot]) - _ONE] != key:
        slot = (slot + _ONE) & mask
    return uint64(table[slot])


@kernel(types.void, read(float64), write(uint64, 2))
def places_at(positions, places):  # type: ignore[no-untyped-def]
    """The place of each post in the cells of every size: cell, then distances; all ones off the globe."""
    for post in range(uint64(places.shape[0])):
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        for size in range(uint64(SIZES)):
            places[post, size] = _place(lon, lat, size) if on_globe(lon, lat) else ~_ZERO
