"""Keeping the conjunctions of one subscription on one matcher, where a word they share allows it.

Then nobody else can find the subscription, and its hits need no merging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tidings.query.conjunctions import Conjunctions

Choose = Callable[[NDArray[np.uint32], int], int]


def keep_together(
    conjunctions: Conjunctions, matcher_of: NDArray[np.uint16], chosen: NDArray[np.uint16], choose: Choose
) -> None:
    """Place alternatives by a common word, which `choose` picks from them (ascending) and the first one's number."""
    for rows in _alternatives(conjunctions.owner):
        common = _common_terms(conjunctions, rows)
        if len(common):
            chosen[rows] = matcher_of[choose(common, int(rows[0]))]


def _alternatives(owner: NDArray[np.uint32]) -> Iterator[NDArray[np.intp]]:
    """The conjunctions of each owner that has several; those of one owner stand together."""
    first = np.flatnonzero(np.diff(owner, prepend=owner[:1] + np.uint32(1)))
    sizes = np.diff(first, append=len(owner))
    for start, size in zip(first[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        yield np.arange(start, start + size)


def _common_terms(conjunctions: Conjunctions, rows: NDArray[np.intp]) -> NDArray[np.uint32]:
    terms, starts = conjunctions.terms, conjunctions.starts
    common = set(terms[starts[rows[0]] : starts[rows[0] + 1]].tolist())
    for row in rows[1:]:
        common &= set(terms[starts[row] : starts[row + 1]].tolist())
    return np.array(sorted(common), np.uint32)
