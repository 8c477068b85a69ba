"""Ragged arrays: rows of different lengths in one flat array with offsets."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)


def take_rows(
    values: NDArray[Item], firsts: NDArray[np.integer], lengths: NDArray[np.integer]
) -> tuple[NDArray[Item], NDArray[np.uint64]]:
    """Return the rows that start at `firsts` with these lengths, concatenated, and their offsets in the result."""
    wide = lengths.astype(np.int64)
    ends = np.cumsum(wide)
    offsets = np.repeat(firsts.astype(np.int64) - ends + wide, wide) + np.arange(int(wide.sum()))
    return values[offsets], np.concatenate([np.zeros(1, np.uint64), ends.astype(np.uint64)])


def rank_values(values: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the distinct values ascending, and the rank of each value: `np.unique` with inverse, without sorting.

    Memory grows with the largest value, so use it for dense values.
    """
    is_used = np.zeros(int(values.max()) + 1 if len(values) else 0, bool)
    is_used[values] = True
    unique = np.flatnonzero(is_used).astype(np.uint32)
    ranks = np.empty(len(is_used), np.uint32)
    ranks[unique] = np.arange(len(unique), dtype=np.uint32)
    return unique, ranks[values]


def sorted_unique(values: NDArray[Item]) -> NDArray[Item]:
    """Return the distinct values ascending.

    `np.unique` hashes integers, which takes minutes for keys that agree in their lower half.
    """
    ordered = np.sort(values)
    unique: NDArray[Item] = ordered[np.concatenate([np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]])]
    return unique
