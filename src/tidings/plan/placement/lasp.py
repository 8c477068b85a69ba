"""LASP (S³-TM, algorithm 2): of the matchers of its terms, a conjunction gets the one with the least disutility.

The disutility is the increase in load × the coefficient of variation of the loads afterwards. The load is linear in the
number of distinct terms of a matcher (`match_cost.py`). There are two rules:

*As printed* (`lasp-printed`): the increase is f(|S \\ H|), which includes the constant of f. That is hundreds of times
the load of a term, so a missing term hardly counts, and similar subscriptions are hardly grouped.

*By the text* (`lasp`): the increase is f(|S ∪ H|) - f(|H|), so a matcher that has all terms costs nothing. Often
several have: then the matcher of the anchor is chosen, because posts with the anchor reach few matchers then, or else
the one with the fewest terms. See docs/decisions/0005.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import float64, int64, types, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write
from tidings.plan.placement.colocate import colocate
from tidings.plan.placement.match_cost import DEFAULT_MATCH_COST, MatchCost
from tidings.plan.placement.shard_terms import ReadShardTerms
from tidings.query.conjunctions import Conjunctions

_ONE = np.uint64(1)


def place_by_load(
    conjunctions: Conjunctions,
    matcher_of: NDArray[np.uint16],
    matchers: int,
    seed: int,
    shard_terms: ReadShardTerms,
    cost: MatchCost = DEFAULT_MATCH_COST,
    as_printed: bool = False,
) -> NDArray[np.uint16]:
    """Return the matcher of each conjunction, decided one by one; those without terms get a random one.

    The map of `shard_terms` is left as it was: the caller knows what is placed in the end.
    """
    chosen = np.empty(len(conjunctions), np.uint16)
    if np.any(without_terms := conjunctions.starts[:-1] == conjunctions.starts[1:]):
        chosen[without_terms] = np.random.default_rng(seed).integers(0, matchers, int(without_terms.sum()))
    current, base = shard_terms(), cost.base_ns / cost.term_ns
    current.reserve(int(conjunctions.terms.max(initial=0)))
    queries, scratch = (conjunctions.terms, conjunctions.starts), np.empty(len(conjunctions.terms), np.uint8)
    _place(*queries, matcher_of, base, as_printed, current.bits, current.sizes.copy(), scratch, chosen)
    colocate(conjunctions, matcher_of, chosen, lambda common, _: int(common[-1]))
    return chosen


place_as_printed = partial(place_by_load, as_printed=True)


@inline
def _add_terms(terms, first, last, matcher, bits, is_new):  # type: ignore[no-untyped-def]
    """Give terms to a matcher, and flag those that it did not have."""
    word, bit = matcher >> uint64(6), _ONE << (matcher & uint64(63))
    for at in range(first, last):
        is_new[at] = uint8(bits[uint64(terms[at]), word] & bit == 0)
        bits[uint64(terms[at]), word] |= bit


@inline
def _count_missing(terms, first, last, matcher, bits):  # type: ignore[no-untyped-def]
    """Return how many of these terms a matcher does not have yet."""
    missing, word, bit = int64(0), matcher >> uint64(6), _ONE << (matcher & uint64(63))
    for at in range(first, last):
        missing += int64(bits[uint64(terms[at]), word] & bit == 0)
    return missing


@inline
def _disutility(extra, missing, size, total, squares, base, matchers):  # type: ignore[no-untyped-def]
    """Return extra load × coefficient of variation of the loads, if a matcher gets `missing` terms.

    Loads are in units of a term. The sums are integers, so that they are exact.
    """
    total += missing
    variance = matchers * (squares + (2 * size + missing) * missing) - total * total
    return extra * np.sqrt(float64(variance)) / (base * float64(matchers) + float64(total)) if total > 0 else 0.0


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint16),
    float64,
    types.boolean,
    write(uint64, 2),
    write(int64),
    write(uint8),
    write(uint16),
)
def _place(terms, starts, matcher_of, base, as_printed, bits, sizes, is_new, chosen):  # type: ignore[no-untyped-def]
    """Write the matcher of every conjunction; `bits` are as before afterwards."""
    total, squares = int64(0), int64(0)
    for matcher in range(uint64(sizes.size)):
        total += sizes[matcher]
        squares += sizes[matcher] * sizes[matcher]
    for number in range(uint64(chosen.size)):
        first, last = starts[number], starts[number + _ONE]
        if first == last:
            continue
        preferred = uint64(matcher_of[uint64(terms[first])])
        best, best_cost, best_missing, best_rank = uint64(0), np.inf, int64(0), int64(0)
        for at in range(first, last):
            matcher = uint64(matcher_of[uint64(terms[at])])
            missing = _count_missing(terms, first, last, matcher, bits)
            extra = float64(missing) + base * float64(as_printed)
            cost = _disutility(extra, missing, sizes[matcher], total, squares, base, int64(sizes.size))
            rank = int64(0) if as_printed else (int64(-1) if matcher == preferred else sizes[matcher])
            if (cost, missing, rank, matcher) < (best_cost, best_missing, best_rank, best):
                best, best_cost, best_missing, best_rank = matcher, cost, missing, rank
        total += best_missing
        squares += (2 * sizes[best] + best_missing) * best_missing
        sizes[best] += best_missing
        chosen[number] = uint16(best)
        _add_terms(terms, first, last, best, bits, is_new)
    for number in range(uint64(chosen.size)):
        matcher = uint64(chosen[number])
        for at in range(starts[number], starts[number + _ONE]):
            if is_new[at] != 0:
                bits[uint64(terms[at]), matcher >> uint64(6)] &= ~(_ONE << (matcher & uint64(63)))
