"""Select the cells that a matcher gives away (PS²Stream, definition 4): enough load, as few bytes as possible.

This is a knapsack problem. `dp` solves it exactly, with time and memory proportional to the bytes. `gr` is the greedy
algorithm of the paper, `gr+` adds backtracking. `si` takes the largest cells first, `ra` random cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numba import float64, int64, uint64
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.jit import kernel, read, write

# (loads of the cells, sizes in bytes, load to give away, seed) → the cells to give away, ascending
CellSelector = Callable[[NDArray[np.float64], NDArray[np.int64], float, int], NDArray[np.intp]]

MAX_TABLE_BITS = 1 << 31  # of the exact algorithm; larger tables take too long
MAX_BACKTRACK_STEPS = 40_000  # of `gr+`, in addition to those of `gr`
_ONE = np.uint64(1)


def select_greedy(
    loads: NDArray[np.float64], sizes: NDArray[np.int64], target: float, seed: int = 0
) -> NDArray[np.intp]:
    """Take cells in ascending order of size per load while the total load stays below the target.

    A cell that would reach the target completes a candidate (the cells taken so far and this one). The candidate with
    the fewest bytes wins.
    """
    return _scan_greedily(loads, sizes, target, 0)


def select_backtracking(
    loads: NDArray[np.float64], sizes: NDArray[np.int64], target: float, seed: int = 0
) -> NDArray[np.intp]:
    """Like `gr`, but then leave out the last cell taken and continue the scan after it, and so on.

    The size per load of the next cell bounds the best possible result, so most branches are cut. Nearly always the
    search ends before `MAX_BACKTRACK_STEPS`, with the optimum; it is never worse than `gr`.
    """
    return _scan_greedily(loads, sizes, target, MAX_BACKTRACK_STEPS)


def _scan_greedily(
    loads: NDArray[np.float64], sizes: NDArray[np.int64], target: float, backtrack_steps: int
) -> NDArray[np.intp]:
    size_per_load = sizes / np.maximum(loads, 1e-300)
    order = np.lexsort((sizes, size_per_load))
    taken, best = np.empty((2, len(loads)), np.int64)
    cells = (loads[order], sizes[order], size_per_load[order])
    limits = (np.uint64(len(loads) + backtrack_steps), np.uint64(backtrack_steps > 0))
    count = _scan(*cells, target, *limits, taken, np.empty(len(loads)), best)
    return np.sort(order[best[:count]]) if count else np.arange(len(loads))


@kernel(
    uint64,
    read(float64),
    read(int64),
    read(float64),
    float64,
    uint64,
    uint64,
    write(int64),
    write(float64),
    write(int64),
)
def _scan(loads, sizes, size_per_load, target, steps, backtracks, taken, reached, best):  # type: ignore[no-untyped-def]
    """Write the positions of the smallest candidate to `best`. Return their number, 0 if the target is out of reach.

    `taken` are the positions taken, `reached` the load before each: subtracting it again would cause rounding errors.
    """
    depth, place, count = uint64(0), uint64(0), uint64(0)
    load, size, best_size = 0.0, int64(0), sizes.sum() + int64(1)
    while True:
        while place < uint64(loads.size) and steps > 0 and size + (target - load) * size_per_load[place] < best_size:
            steps -= _ONE
            if load + loads[place] < target:
                taken[depth], reached[depth] = place, load
                load, size = load + loads[place], size + sizes[place]
                depth += _ONE
            elif size + sizes[place] < best_size:
                best_size = size + sizes[place]
                for number in range(depth):
                    best[number] = taken[number]
                best[depth] = place
                count = depth + _ONE
            place += _ONE
        if depth == 0 or steps == 0 or not backtracks:
            return count
        depth -= _ONE
        place = uint64(taken[depth])
        load, size = reached[depth], size - sizes[place]
        place += _ONE


def select_exact(
    loads: NDArray[np.float64], sizes: NDArray[np.int64], target: float, seed: int = 0
) -> NDArray[np.intp]:
    """Return the optimum. ``A(i, j)`` is the largest load of the first i cells in j bytes; `gr` gives the bound P."""
    bound = int(sizes[select_greedy(loads, sizes, target)].sum())
    if len(loads) * (bound + 1) > MAX_TABLE_BITS:
        raise InputError(f"dp: the table needs {len(loads) * (bound + 1):,} bits, at most {MAX_TABLE_BITS:,}. Use gr+.")
    most = np.zeros(bound + 1)
    took = np.zeros((len(loads), bound // 8 + 1), np.uint8)  # bits: whether j + size bytes are used with this cell
    for cell, (load, size) in enumerate(zip(loads.tolist(), sizes.tolist(), strict=True)):
        if size > bound:
            continue
        with_it = most[: bound + 1 - size] + load
        bits = np.packbits(with_it > most[size:], bitorder="little")
        took[cell, : len(bits)] = bits
        np.maximum(most[size:], with_it, out=most[size:])
    enough = np.flatnonzero(most >= target)
    if not len(enough):
        return np.arange(len(loads))
    left, chosen = int(enough[0]), []
    for cell in range(len(loads) - 1, -1, -1):
        before = left - int(sizes[cell])
        if before >= 0 and took[cell, before >> 3] >> (before & 7) & 1:
            chosen.append(cell)
            left = before
    return np.array(chosen[::-1], np.intp)


def select_largest(
    loads: NDArray[np.float64], sizes: NDArray[np.int64], target: float, seed: int = 0
) -> NDArray[np.intp]:
    """Take the largest cells first until the target is reached."""
    return _take_until(np.argsort(-sizes, kind="stable"), loads, target)


def select_random(
    loads: NDArray[np.float64], sizes: NDArray[np.int64], target: float, seed: int = 0
) -> NDArray[np.intp]:
    """Take random cells until the target is reached."""
    return _take_until(np.random.default_rng(seed).permutation(len(loads)), loads, target)


def _take_until(order: NDArray[np.intp], loads: NDArray[np.float64], target: float) -> NDArray[np.intp]:
    reached = np.flatnonzero(np.cumsum(loads[order]) >= target)
    count = int(reached[0]) + 1 if len(reached) else len(order)
    return np.sort(order[:count])


SELECTORS: Mapping[str, CellSelector] = {
    "gr": select_greedy,
    "gr+": select_backtracking,
    "dp": select_exact,
    "si": select_largest,
    "ra": select_random,
}


def get_selector(name: str) -> CellSelector:
    """Return the selector of this name. Raises InputError if it is unknown."""
    if name not in SELECTORS:
        raise InputError(f"selector {name!r}: unknown. Choose one of: {', '.join(SELECTORS)}.")
    return SELECTORS[name]
