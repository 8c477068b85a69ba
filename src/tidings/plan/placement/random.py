"""Random anycast: a conjunction gets one of the matchers of its terms, each with equal probability."""

from __future__ import annotations

import numpy as np
from numba import types, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write
from tidings.plan.placement.colocate import colocate
from tidings.plan.placement.shard_terms import ReadShardTerms
from tidings.query.conjunctions import Conjunctions

_ONE = np.uint64(1)


def place_at_random(
    conjunctions: Conjunctions, matcher_of: NDArray[np.uint16], matchers: int, seed: int, shard_terms: ReadShardTerms
) -> NDArray[np.uint16]:
    """Return the matcher of each conjunction; `matcher_of` is indexed by term. The same seed gives the same result."""
    chosen = np.empty(len(conjunctions), np.uint16)
    draws = np.random.default_rng(seed).integers(0, 1 << 62, len(conjunctions), dtype=np.uint64)
    _place(conjunctions.terms, conjunctions.starts, matcher_of, draws, chosen)
    without_terms = conjunctions.starts[:-1] == conjunctions.starts[1:]
    chosen[without_terms] = draws[without_terms] % np.uint64(matchers)
    colocate(conjunctions, matcher_of, chosen, lambda common, row: int(common[draws[row] % np.uint64(len(common))]))
    return chosen


@inline
def _is_first(terms, first, at, matcher_of):  # type: ignore[no-untyped-def]
    """Return 1 if no earlier term has the same matcher, so that matchers are equally likely; else 0."""
    for before in range(first, at):
        if matcher_of[uint64(terms[before])] == matcher_of[uint64(terms[at])]:
            return uint64(0)
    return _ONE


@kernel(types.void, read(uint32), read(uint64), read(uint16), read(uint64), write(uint16))
def _place(terms, starts, matcher_of, draws, chosen):  # type: ignore[no-untyped-def]
    for number in range(uint64(chosen.size)):
        first, last = starts[number], starts[number + _ONE]
        if first == last:
            continue
        distinct = uint64(0)
        for at in range(first, last):
            distinct += _is_first(terms, first, at, matcher_of)
        remaining = draws[number] % distinct
        for at in range(first, last):
            if _is_first(terms, first, at, matcher_of) != 0:
                if remaining == 0:
                    chosen[number] = matcher_of[uint64(terms[at])]
                    break
                remaining -= _ONE
