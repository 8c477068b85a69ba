"""Which cells a worker gives away (PS²Stream, definition 4): enough load, as few bytes as possible. Five ways.

The problem is a knapsack: `dp` solves it exactly, in time and memory that grow with the bytes; `gr` is the paper's
greedy algorithm, `gr+` the same one when it may go back; `si` takes the largest cells first, `ra` any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numba import float64, int64, uint64
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.jit import kernel, read, write

# (loads of the cells, their sizes in bytes, the load to give away, a seed) → the cells to give away, ascending
Select = Callable[[NDArray[np.float64], NDArray[np.int64], float, int], NDArray[np.intp]]

MAX_TABLE = 1 << 31  # entries of the exact algorithm's table, a bit each; beyond that it does not finish on a machine
GOING_BACK = 40_000  # steps that `gr+` takes at most behind those of `gr`
_ONE = np.uint64(1)


def gr(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """In ascending order of size for load, cells are taken while the load stays below what is wanted.

    A cell that would reach it completes a candidate: what was taken so far and this one. The cheapest candidate wins.
    """
    return _greedy(loads, sizes, wanted, 0)


def gr_plus(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """As `gr`; then the last cell taken is left out, the scan goes on behind it, and so on, for so many steps at most.

    What the next cell's size for load promises at best tells when going on is in vain. So nearly always all is tried
    before the steps are used up, and the choice is the best there is; it is never worse than that of `gr`.
    """
    return _greedy(loads, sizes, wanted, GOING_BACK)


def _greedy(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, back: int) -> NDArray[np.intp]:
    for_load = sizes / np.maximum(loads, 1e-300)
    order = np.lexsort((sizes, for_load))
    taken, best = np.empty((2, len(loads)), np.int64)
    cells = (loads[order], sizes[order], for_load[order])
    count = _scan(*cells, wanted, np.uint64(len(loads) + back), np.uint64(back > 0), taken, np.empty(len(loads)), best)
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
def _scan(loads, sizes, for_load, wanted, steps, goes_back, taken, reached, best):  # type: ignore[no-untyped-def]
    """Write the places of the cheapest candidate to `best`; returns how many they are, 0 where nothing is enough.

    `taken` are the places of those taken, `reached` the load before each: to subtract it again would round.
    """
    depth, place, count = uint64(0), uint64(0), uint64(0)
    load, size, best_size = 0.0, int64(0), sizes.sum() + int64(1)
    while True:
        while place < uint64(loads.size) and steps > 0 and size + (wanted - load) * for_load[place] < best_size:
            steps -= _ONE
            if load + loads[place] < wanted:
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
        if depth == 0 or steps == 0 or not goes_back:
            return count
        depth -= _ONE
        place = uint64(taken[depth])
        load, size = reached[depth], size - sizes[place]
        place += _ONE


def dp(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """The best choice there is. ``A(i, j)`` is the most load of the first i cells in j bytes; P is what `gr` costs."""
    bound = int(sizes[gr(loads, sizes, wanted)].sum())
    if len(loads) * (bound + 1) > MAX_TABLE:
        raise InputError(f"The exact choice needs {len(loads) * (bound + 1):,} entries; choose `gr+`.")
    most = np.zeros(bound + 1)
    took = np.zeros((len(loads), bound // 8 + 1), np.uint8)  # bits: whether j + size bytes are used with this cell
    for cell, (load, size) in enumerate(zip(loads.tolist(), sizes.tolist(), strict=True)):
        if size > bound:
            continue
        with_it = most[: bound + 1 - size] + load
        bits = np.packbits(with_it > most[size:], bitorder="little")
        took[cell, : len(bits)] = bits
        np.maximum(most[size:], with_it, out=most[size:])
    enough = np.flatnonzero(most >= wanted)
    if not len(enough):
        return np.arange(len(loads))
    left, chosen = int(enough[0]), []
    for cell in range(len(loads) - 1, -1, -1):
        before = left - int(sizes[cell])
        if before >= 0 and took[cell, before >> 3] >> (before & 7) & 1:
            chosen.append(cell)
            left = before
    return np.array(chosen[::-1], np.intp)


def si(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """The largest cells first, until it is enough."""
    return _until(np.argsort(-sizes, kind="stable"), loads, wanted)


def ra(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """Cells at random, until it is enough."""
    return _until(np.random.default_rng(seed).permutation(len(loads)), loads, wanted)


def _until(order: NDArray[np.intp], loads: NDArray[np.float64], wanted: float) -> NDArray[np.intp]:
    reached = np.flatnonzero(np.cumsum(loads[order]) >= wanted)
    count = int(reached[0]) + 1 if len(reached) else len(order)
    return np.sort(order[:count])


SELECTORS: Mapping[str, Select] = {"gr": gr, "gr+": gr_plus, "dp": dp, "si": si, "ra": ra}


def selector(name: str) -> Select:
    """A way to choose cells, by its name."""
    if name not in SELECTORS:
        raise InputError(f"There is no way to choose cells called {name!r}; choose one of: {', '.join(SELECTORS)}.")
    return SELECTORS[name]
