"""Which cells of a grid rectangles touch: counted for all cells at once, or told by the names cells go by."""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write
from tidings.plan.grid_lines import Lines
from tidings.ragged import distinct

Rectangles = NDArray[np.uint32]  # first column, first row, last column, last row
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def rectangles(lines: Lines, boxes: NDArray[np.float64]) -> Rectangles:
    """The cells that boxes (west, south, east, north) touch."""
    columns, rows = lines.column(boxes[:, ::2].ravel()), lines.row(boxes[:, 1::2].ravel())
    cells = np.column_stack([columns[::2], rows[::2], columns[1::2], rows[1::2]])
    return np.ascontiguousarray(cells, dtype=np.uint32)


def covered(touched: Rectangles, columns: int, rows: int) -> NDArray[np.int64]:
    """For every cell (row · columns + column) how many rectangles touch it."""
    left, low, right, high = (side.astype(np.int64) for side in touched.T)
    steps = np.zeros((rows + 1, columns + 1), np.int64)
    for row, column, step in ((low, left, 1), (low, right + 1, -1), (high + 1, left, -1), (high + 1, right + 1, 1)):
        np.add.at(steps, (row, column), step)
    return np.ascontiguousarray(steps.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]).ravel()


def named(
    touched: Rectangles, columns: int, name_of: NDArray[np.uint32], which: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(name, which) of all cells that rectangles touch, each pair once; `which` tells whose each rectangle is."""
    names = int(name_of.max()) + 1 if len(name_of) else 0
    arguments = (touched, np.uint64(columns), name_of)
    count = _names(*arguments, np.zeros(names, np.uint32), np.empty((0, 2), np.uint32))
    found = np.empty((int(count), 2), np.uint32)
    _names(*arguments, np.zeros(names, np.uint32), found)
    pairs = distinct(which[found[:, 0]].astype(np.int64) << 32 | found[:, 1])
    return pairs & 0xFFFFFFFF, pairs >> 32


@kernel(uint64, read(uint32, 2), uint64, read(uint32), write(uint32), write(uint32, 2))
def _names(touched, columns, name_of, seen, found):  # type: ignore[no-untyped-def]
    """Write (rectangle, name) for every name once; returns how many. With no room in `found` they are only counted.

    `seen` has a zero for every name.
    """
    used = _ZERO
    for number in range(uint64(touched.shape[0])):
        mark = uint32(number + _ONE)
        for row in range(uint64(touched[number, _ONE]), uint64(touched[number, uint64(3)]) + _ONE):
            base = row * columns
            for cell in range(base + uint64(touched[number, _ZERO]), base + uint64(touched[number, uint64(2)]) + _ONE):
                name = uint64(name_of[cell])
                if seen[name] != mark:
                    seen[name] = mark
                    if used < uint64(found.shape[0]):
                        found[used, _ZERO], found[used, _ONE] = uint32(number), uint32(name)
                    used += _ONE
    return used
