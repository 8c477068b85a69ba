"""Put all conjunctions of a subscription on one matcher, if they have a term in common.

Then no other matcher can find the subscription, and its matches need no merging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tidings.query.conjunctions import Conjunctions

ChooseTerm = Callable[[NDArray[np.uint32], int], int]


def colocate(
    conjunctions: Conjunctions, matcher_of: NDArray[np.uint16], chosen: NDArray[np.uint16], choose: ChooseTerm
) -> None:
    """Place alternatives by a common term; `choose` gets the common terms (rarest last) and the first row."""
    for rows in _iter_alternatives(conjunctions.subscription):
        common = _common_terms(conjunctions, rows)
        if len(common):
            chosen[rows] = matcher_of[choose(common, int(rows[0]))]


def _iter_alternatives(subscription: NDArray[np.uint32]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of each subscription with several conjunctions; these are next to each other."""
    first = np.flatnonzero(np.diff(subscription, prepend=subscription[:1] + np.uint32(1)))
    sizes = np.diff(first, append=len(subscription))
    for start, size in zip(first[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        yield np.arange(start, start + size)


def _common_terms(conjunctions: Conjunctions, rows: NDArray[np.intp]) -> NDArray[np.uint32]:
    terms, starts = conjunctions.terms, conjunctions.starts
    common = set(terms[starts[rows[0]] : starts[rows[0] + 1]].tolist())
    for row in rows[1:]:
        common &= set(terms[starts[row] : starts[row + 1]].tolist())
    in_order = terms[starts[rows[0]] : starts[rows[0] + 1]][::-1].tolist()
    return np.array([term for term in in_order if term in common], np.uint32)
