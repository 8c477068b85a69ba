"""Find the grid cells that boxes touch: counts per cell, or the names (areas) of the cells."""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write
from tidings.plan.grid_lines import GridLines
from tidings.ragged import sorted_unique

CellRanges = NDArray[np.uint32]  # first column, first row, last column, last row
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def cell_ranges(lines: GridLines, boxes: NDArray[np.float64]) -> CellRanges:
    """Return the ranges of cells that boxes (west, south, east, north) touch."""
    columns, rows = lines.column(boxes[:, ::2].ravel()), lines.row(boxes[:, 1::2].ravel())
    cells = np.column_stack([columns[::2], rows[::2], columns[1::2], rows[1::2]])
    return np.ascontiguousarray(cells, dtype=np.uint32)


def count_covering(ranges: CellRanges, columns: int, rows: int) -> NDArray[np.int64]:
    """Return, for every cell (row · columns + column), how many ranges cover it."""
    left, low, right, high = (side.astype(np.int64) for side in ranges.T)
    steps = np.zeros((rows + 1, columns + 1), np.int64)
    for row, column, step in ((low, left, 1), (low, right + 1, -1), (high + 1, left, -1), (high + 1, right + 1, 1)):
        np.add.at(steps, (row, column), step)
    return np.ascontiguousarray(steps.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]).ravel()


def touched_names(
    ranges: CellRanges, columns: int, name_of: NDArray[np.uint32], which: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (name, owner) of all cells in the ranges, each pair once; `which` is the owner of each range."""
    names = int(name_of.max()) + 1 if len(name_of) else 0
    arguments = (ranges, np.uint64(columns), name_of)
    count = _write_names(*arguments, np.zeros(names, np.uint32), np.empty((0, 2), np.uint32))
    pairs = np.empty((int(count), 2), np.uint32)
    _write_names(*arguments, np.zeros(names, np.uint32), pairs)
    keys = sorted_unique(which[pairs[:, 0]].astype(np.int64) << 32 | pairs[:, 1])
    return keys & 0xFFFFFFFF, keys >> 32


@kernel(uint64, read(uint32, 2), uint64, read(uint32), write(uint32), write(uint32, 2))
def _write_names(ranges, columns, name_of, seen, pairs):  # type: ignore[no-untyped-def]
    """Write (range, name) once per name and range, and return their number; an empty `pairs` only counts them.

    `seen` has a zero for every name.
    """
    used = _ZERO
    for number in range(uint64(ranges.shape[0])):
        mark = uint32(number + _ONE)
        for row in range(uint64(ranges[number, _ONE]), uint64(ranges[number, uint64(3)]) + _ONE):
            base = row * columns
            for cell in range(base + uint64(ranges[number, _ZERO]), base + uint64(ranges[number, uint64(2)]) + _ONE):
                name = uint64(name_of[cell])
                if seen[name] != mark:
                    seen[name] = mark
                    if used < uint64(pairs.shape[0]):
                        pairs[used, _ZERO], pairs[used, _ONE] = uint32(number), uint32(name)
                    used += _ONE
    return used
