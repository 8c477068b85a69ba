"""Which cells a worker gives away (PS²Stream, definition 4): enough load, as few bytes as possible. Four ways.

The problem is a knapsack: `dp` solves it exactly, in time and memory that grow with the bytes; `gr` is the paper's
greedy algorithm; `si` takes the largest cells first, `ra` any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError

# (loads of the cells, their sizes in bytes, the load to give away, a seed) → the cells to give away, ascending
Select = Callable[[NDArray[np.float64], NDArray[np.int64], float, int], NDArray[np.intp]]

MAX_TABLE = 1 << 31  # entries of the exact algorithm's table; beyond that it cannot finish on a machine


def gr(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """In ascending order of size for load, cells are taken while the load stays below what is wanted.

    A cell that would reach it completes a candidate: what was taken so far and this one. The cheapest candidate wins.
    """
    order = np.lexsort((sizes, sizes / np.maximum(loads, 1e-300)))
    taken: list[int] = []  # places in this order
    load, size = 0.0, 0
    best, best_size = (0, -1), int(sizes.sum()) + 1  # how many of those taken, and the place that completes them
    for place, (own_load, own_size) in enumerate(zip(loads[order].tolist(), sizes[order].tolist(), strict=True)):
        if load + own_load < wanted:
            taken.append(place)
            load, size = load + own_load, size + own_size
        elif size + own_size < best_size:
            best, best_size = (len(taken), place), size + own_size
    count, last = best
    return np.arange(len(loads)) if last < 0 else np.sort(order[[*taken[:count], last]])


def dp(loads: NDArray[np.float64], sizes: NDArray[np.int64], wanted: float, seed: int = 0) -> NDArray[np.intp]:
    """The best choice there is. ``A(i, j)`` is the most load of the first i cells in j bytes; P is what `gr` costs."""
    bound = int(sizes[gr(loads, sizes, wanted)].sum())
    if len(loads) * (bound + 1) > MAX_TABLE:
        raise InputError(f"The exact choice needs {len(loads) * (bound + 1):,} entries; choose `gr`.")
    most = np.zeros(bound + 1)
    took = np.zeros((len(loads), bound + 1), bool)
    for cell, (load, size) in enumerate(zip(loads.tolist(), sizes.tolist(), strict=True)):
        if size > bound:
            continue
        with_it = most[: bound + 1 - size] + load
        took[cell, size:] = with_it > most[size:]
        most[size:] = np.maximum(most[size:], with_it)
    enough = np.flatnonzero(most >= wanted)
    if not len(enough):
        return np.arange(len(loads))
    left, chosen = int(enough[0]), []
    for cell in range(len(loads) - 1, -1, -1):
        if took[cell, left]:
            chosen.append(cell)
            left -= int(sizes[cell])
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


SELECTORS: Mapping[str, Select] = {"gr": gr, "dp": dp, "si": si, "ra": ra}


def selector(name: str) -> Select:
    """A way to choose cells, by its name."""
    if name not in SELECTORS:
        raise InputError(f"There is no way to choose cells called {name!r}; choose one of: {', '.join(SELECTORS)}.")
    return SELECTORS[name]
