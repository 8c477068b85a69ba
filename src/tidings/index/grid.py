"""Entries that no word leads to are found by region: a grid of one-degree cells lists those that may hold a point."""

from __future__ import annotations

import numpy as np
from numba import float64, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write

COLUMNS, ROWS = 360, 180
CELLS = COLUMNS * ROWS
EVERYWHERE = CELLS  # the list of rectangles too large to be put into all their cells
MAX_CELLS = 1024


def cells_of(rectangle: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cells a rectangle touches, or only EVERYWHERE when they are too many."""
    west, south, east, north = rectangle.tolist()
    columns = np.arange(_column(west), _column(east) + 1)
    rows = np.arange(_row(south), _row(north) + 1)
    if len(columns) * len(rows) > MAX_CELLS:
        return np.array([EVERYWHERE])
    return np.asarray((rows[:, None] * COLUMNS + columns[None, :]).ravel())


def _column(lon: float) -> int:
    return min(COLUMNS - 1, max(0, int(np.floor(lon + 180.0))))


def _row(lat: float) -> int:
    return min(ROWS - 1, max(0, int(np.floor(lat + 90.0))))


def build_grid(
    rectangles: NDArray[np.float64], entries: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(start of each cell's list, the lists) for boxes and the entry each leads to; empty without entries."""
    if len(entries) == 0:
        return np.zeros(0, np.uint32), np.zeros(0, np.uint32)
    cells = [cells_of(rectangle) for rectangle in rectangles]
    cell = np.concatenate(cells)
    entry = np.repeat(entries, [len(c) for c in cells])
    pairs = np.unique(cell << 32 | entry)  # two boxes of one entry may touch the same cell
    starts = np.searchsorted(pairs >> 32, np.arange(CELLS + 2)).astype(np.uint32)
    return starts, (pairs & 0xFFFFFFFF).astype(np.uint32)


@inlined
def cell_at(lon, lat):  # type: ignore[no-untyped-def]
    """The cell of a point, which must lie on the globe."""
    column = min(uint64(COLUMNS - 1), uint64(np.floor(lon + 180.0)))
    row = min(uint64(ROWS - 1), uint64(np.floor(lat + 90.0)))
    return row * uint64(COLUMNS) + column


@inlined
def on_globe(lon, lat):  # type: ignore[no-untyped-def]
    return lon >= -180.0 and lon <= 180.0 and lat >= -90.0 and lat <= 90.0


@kernel(uint64, read(float64), read(uint32), read(uint32), write(uint32, 2))
def locate(positions, cell_start, cell_entries, pairs):  # type: ignore[no-untyped-def]
    """Write (post, entry) for every entry that the cell of a post lists; returns how many, written or not."""
    used = uint64(0)
    for post in range(uint64(positions.size // 2)):
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + uint64(1)]
        if not on_globe(lon, lat):
            continue
        for cell in (cell_at(lon, lat), uint64(EVERYWHERE)):
            for at in range(uint64(cell_start[cell]), uint64(cell_start[cell + uint64(1)])):
                if used < uint64(pairs.shape[0]):
                    pairs[used, uint64(0)] = uint32(post)
                    pairs[used, uint64(1)] = cell_entries[at]
                used += uint64(1)
    return used
