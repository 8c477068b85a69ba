"""Rows of different lengths in one flat array: the shape of nearly everything here."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)


def take_rows(
    values: NDArray[Item], firsts: NDArray[np.integer], lengths: NDArray[np.integer]
) -> tuple[NDArray[Item], NDArray[np.uint64]]:
    """The rows that start at `firsts` with these lengths, one after another, and where each starts in the result."""
    wide = lengths.astype(np.int64)
    ends = np.cumsum(wide)
    places = np.repeat(firsts.astype(np.int64) - ends + wide, wide) + np.arange(int(wide.sum()))
    return values[places], np.concatenate([np.zeros(1, np.uint64), ends.astype(np.uint64)])


def ranked(values: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The different values ascending, and the place of each value among them: what `np.unique` tells, without sorting.

    For numbers that are not much larger than there are many.
    """
    used = np.zeros(int(values.max()) + 1 if len(values) else 0, bool)
    used[values] = True
    different = np.flatnonzero(used).astype(np.uint32)
    places = np.empty(len(used), np.uint32)
    places[different] = np.arange(len(different), dtype=np.uint32)
    return different, places[values]


def distinct(values: NDArray[Item]) -> NDArray[Item]:
    """The values ascending, each once. (`np.unique` hashes whole numbers, and takes minutes for keys that are alike in
    their lower half.)"""
    ordered = np.sort(values)
    found: NDArray[Item] = ordered[np.concatenate([np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]])]
    return found
