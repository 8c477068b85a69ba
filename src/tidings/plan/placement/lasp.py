"""LASP (S³-TM, algorithm 2): of the matchers of its terms, a conjunction gets the one with the least disutility.

Load is linear in the number of distinct terms of a matcher (`match_cost.py`).
"""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint16, uint32, uint64
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
) -> NDArray[np.uint16]:
    """Return the matcher of each conjunction, decided one by one; those without terms get a random one."""
    chosen = np.empty(len(conjunctions), np.uint16)
    without_terms = np.flatnonzero(conjunctions.starts[:-1] == conjunctions.starts[1:])
    chosen[without_terms] = np.random.default_rng(seed).integers(0, matchers, len(without_terms))
    current = shard_terms()
    bits, loads = current.copy_bits(int(conjunctions.terms.max(initial=0))), cost.of(current.count_terms())
    _place(conjunctions.terms, conjunctions.starts, matcher_of, cost.base_ns, cost.term_ns, bits, loads, chosen)
    colocate(conjunctions, matcher_of, chosen, lambda common, _: int(common[-1]))
    return chosen


@inline
def _count_missing(terms, first, last, matcher, bits):  # type: ignore[no-untyped-def]
    """Return how many of these terms a matcher does not have yet."""
    missing, word, bit = uint64(0), matcher >> uint64(6), _ONE << (matcher & uint64(63))
    for at in range(first, last):
        missing += uint64(bits[uint64(terms[at]), word] & bit == 0)
    return missing


@inline
def _disutility(extra, delta, load, total, squares, matchers):  # type: ignore[no-untyped-def]
    """Return extra load × coefficient of variation of the loads, if one load grew by `delta`."""
    mean = (total + delta) / matchers
    variance = (squares + 2.0 * load * delta + delta * delta) / matchers - mean * mean
    return extra * np.sqrt(max(0.0, variance)) / mean if mean > 0.0 else 0.0


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint16),
    float64,
    float64,
    write(uint64, 2),
    write(float64),
    write(uint16),
)
def _place(terms, starts, matcher_of, base_ns, term_ns, bits, loads, chosen):  # type: ignore[no-untyped-def]
    total, squares, matchers = 0.0, 0.0, float64(loads.size)
    for matcher in range(uint64(loads.size)):
        total += loads[matcher]
        squares += loads[matcher] * loads[matcher]
    for number in range(uint64(chosen.size)):
        first, last = starts[number], starts[number + _ONE]
        if first == last:
            continue
        best, best_missing, best_cost = uint64(0), uint64(0), np.inf
        for at in range(first, last):
            matcher = uint64(matcher_of[uint64(terms[at])])
            missing = _count_missing(terms, first, last, matcher, bits)
            delta = term_ns * float64(missing)
            cost = _disutility(base_ns + delta, delta, loads[matcher], total, squares, matchers)
            if cost < best_cost or (
                cost == best_cost and (missing < best_missing or (missing == best_missing and matcher < best))
            ):
                best, best_missing, best_cost = matcher, missing, cost
        delta = term_ns * float64(best_missing)
        total += delta
        squares += 2.0 * loads[best] * delta + delta * delta
        loads[best] += delta
        chosen[number] = uint16(best)
        for at in range(first, last):
            bits[uint64(terms[at]), best >> uint64(6)] |= _ONE << (best & uint64(63))
