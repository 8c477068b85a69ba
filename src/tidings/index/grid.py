"""The grid of GI²: which cells a region touches, which part of each, and in which cells a post lies.

Cells have three sizes. A region is divided into the smallest cells of which few cover it, so that a town and a
continent both need little memory; a post lies in one cell of each size. Within a cell positions are whole steps: the
part of a cell that a box covers fits into four bytes and decides for nearly all posts whether they lie in the box.
"""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write

COLUMNS, ROWS = 360, 180
CELLS = COLUMNS * ROWS  # of one degree; posts are routed by these
PER_DEGREE = (8.0, 1.0, 1.0 / 15.0)  # cells of each size along a degree
SIZES = len(PER_DEGREE)
MAX_CELLS = 64  # a region that touches more cells of a size uses the next size
STEPS = 128  # per cell, along each side
_SIZE_SHIFT = 28  # a cell is its size and, in the lower bits, its number among those of its size
_STEP_BITS = np.uint64(7)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_PART_BITS = np.uint64(32)
_FARTHEST = STEPS - 1  # the last two steps count as one, so that a distance needs only seven bits
_FREE_BITS = np.uint64(0x80808080)
_ONES = np.uint64(0x01010101)


def sizes_for(boxes: NDArray[np.float64], which: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """Return the smallest cell size with few enough cells, for each of `count` regions; `which`: region per box."""
    sizes = np.full(count, SIZES - 1)
    for size in reversed(range(SIZES - 1)):
        low, high = _steps(boxes, size)
        spans = high // STEPS - low // STEPS + 1
        sizes[np.bincount(which, spans[:, 0] * spans[:, 1], count) <= MAX_CELLS] = size
    return sizes


def cells_of(
    boxes: NDArray[np.float64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """Return (cells, the box that touches each, the part that the box covers); `sizes` is the cell size per box.

    A part has a byte for each side of the box, west, south, east, north: the distance from the same side of the cell in
    steps, from 1; 0 if the box extends beyond the cell.
    """
    pieces = [_divide(boxes, np.flatnonzero(sizes == size), size) for size in range(SIZES)]
    cells, rows, parts = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return cells, rows, parts


def finest_cells(boxes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the smallest cell with the corner of each box, to sort neighbours next to each other."""
    corner = _steps(boxes, 0)[0] // STEPS
    return np.asarray(corner[:, 1] * _columns(0) + corner[:, 0])


def _divide(
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
        near = low[rows, at] - cell * STEPS + 1
        far = (cell + 1) * STEPS - high[rows, at]
        part |= np.clip(near, 0, _FARTHEST) << 8 * at | np.clip(far, 0, _FARTHEST) << 16 + 8 * at
    return size << _SIZE_SHIFT | (row * _columns(size) + column), chosen[rows], part


def _steps(boxes: NDArray[np.float64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the steps (column, row) at which boxes in degrees start and end."""
    last = np.array([_columns(size), _rows(size)]) * STEPS - 1
    sides = (np.floor((boxes[:, at : at + 2] + [180.0, 90.0]) * (PER_DEGREE[size] * STEPS)) for at in (0, 2))
    low, high = (np.clip(side.astype(np.int64), 0, last) for side in sides)
    return low, high


def _columns(size: int) -> int:
    return round(360 * PER_DEGREE[size])


def _rows(size: int) -> int:
    return round(180 * PER_DEGREE[size])


def degree_cells(cells: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the one-degree cells that cells of any size touch, ascending."""
    size_of = (cells >> np.uint64(_SIZE_SHIFT)).astype(np.int64)
    number = (cells & np.uint64((1 << _SIZE_SHIFT) - 1)).astype(np.int64)
    touched = []
    for size, per_degree in enumerate(PER_DEGREE):
        row, column = np.divmod(number[size_of == size], _columns(size))
        offsets = np.arange(max(1, round(1 / per_degree)))
        columns = np.floor(column / per_degree).astype(np.int64)[:, None, None] + offsets[None, None, :]
        rows = np.floor(row / per_degree).astype(np.int64)[:, None, None] + offsets[None, :, None]
        touched.append((np.minimum(rows, ROWS - 1) * COLUMNS + np.minimum(columns, COLUMNS - 1)).ravel())
    return np.unique(np.concatenate(touched))


@inline
def on_globe(lon, lat):  # type: ignore[no-untyped-def]
    return lon >= -180.0 and lon <= 180.0 and lat >= -90.0 and lat <= 90.0


@inline
def cell_at(lon, lat):  # type: ignore[no-untyped-def]
    """Return the one-degree cell of a point, which must be on the globe."""
    column = min(uint64(COLUMNS - 1), uint64(np.floor(lon + 180.0)))
    row = min(uint64(ROWS - 1), uint64(np.floor(lat + 90.0)))
    return row * uint64(COLUMNS) + column


@inline
def _cell_position(lon, lat, size):  # type: ignore[no-untyped-def]
    """Return the cell of a size that contains a point and, in the lower bits, the distances from its sides."""
    per_degree = PER_DEGREE[0] if size == 0 else (PER_DEGREE[1] if size == 1 else PER_DEGREE[2])
    columns = uint64(2880) if size == 0 else (uint64(360) if size == 1 else uint64(24))
    x = min((columns << _STEP_BITS) - _ONE, uint64(np.floor((lon + 180.0) * (per_degree * STEPS))))
    y = min((columns << (_STEP_BITS - _ONE)) - _ONE, uint64(np.floor((lat + 90.0) * (per_degree * STEPS))))
    cell = uint64(size) << uint64(_SIZE_SHIFT) | ((y >> _STEP_BITS) * columns + (x >> _STEP_BITS))
    return cell << _PART_BITS | _distances(x) | _distances(y) << uint64(8)


@inline
def _distances(step):  # type: ignore[no-untyped-def]
    """Return the distances from the near and the far side of a cell, in steps from 1, in bytes 0 and 2."""
    within = step & uint64(STEPS - 1)
    near = min(uint64(_FARTHEST), within + _ONE)
    return near | min(uint64(_FARTHEST), uint64(STEPS) - within) << uint64(16)


@inline
def margins_to_box(position, part):  # type: ignore[no-untyped-def]
    """Return how many steps a point is inside each side of a box: one subtraction for all four sides."""
    return (uint64(uint32(position)) | _FREE_BITS) - uint64(part)


@inline
def is_outside(margins):  # type: ignore[no-untyped-def]
    """Return whether a point with these margins is certainly outside of the box."""
    return margins & _FREE_BITS != _FREE_BITS


@inline
def is_within(margins):  # type: ignore[no-untyped-def]
    """Return whether a point with these margins is certainly inside the box."""
    return (margins - _ONES) & _FREE_BITS == _FREE_BITS


def build_hash_table(keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return a hash table from the key of a posting list to its number plus one; 0 marks a free slot."""
    table = np.zeros(1 << max(2, (2 * len(keys)).bit_length()), np.uint32)
    _fill(keys, table)
    return table


@inline
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


@inline
def find_postings(table, keys, key):  # type: ignore[no-untyped-def]
    """Return the number of a posting list plus one; 0 if there is no list for the key."""
    return find_postings_at(table, keys, key, slot_of(key, uint64(table.size - 1)))


@inline
def find_postings_at(table, keys, key, slot):  # type: ignore[no-untyped-def]
    """Return the same as `find_postings`, given the slot of the key."""
    mask = uint64(table.size - 1)
    while table[slot] != 0 and keys[uint64(table[slot]) - _ONE] != key:
        slot = (slot + _ONE) & mask
    return uint64(table[slot])


@kernel(types.void, read(float64), write(uint64, 2))
def grid_positions(positions, cell_positions):  # type: ignore[no-untyped-def]
    """Fill the position of each post in the cells of every size: cell, then distances; all ones off the globe."""
    for post in range(uint64(cell_positions.shape[0])):
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        for size in range(uint64(SIZES)):
            cell_positions[post, size] = _cell_position(lon, lat, size) if on_globe(lon, lat) else ~_ZERO
