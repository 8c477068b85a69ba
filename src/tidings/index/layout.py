"""Compile conjunctions into flat arrays, ordered so that matching reads them sequentially.

The terms of a conjunction are ordered, rarest first (`query/conjunctions.py`); the first is its anchor. A conjunction
is an *entry* of the posting list of its anchor (`posting_start`). `second_term` has the second rarest terms of all
entries, `third_fourth_term` the next two. A term that is missing is 0, which every post contains.
Entries with more than four terms, negations, phrases or several regions have the top bit set in
``third_fourth_term[·, 1]`` and a *residual* that is checked after their terms. Entries with a region come last; they
are not in posting lists of terms but in those of cells (`spatial_postings.py`).
"""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write

HAS_RESIDUAL = np.uint32(0x80000000)
TERM_MASK = np.uint32(0x7FFFFFFF)
INLINE_TERMS = 4
NO_TERM = np.uint32(0xFFFFFFFF)  # in sort keys, so that entries without a term come last

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@inline
def _same(terms, starts, ends, left, right):  # type: ignore[no-untyped-def]
    if ends[left] - starts[left] != ends[right] - starts[right]:
        return False
    for offset in range(ends[left] - starts[left]):
        if terms[starts[left] + offset] != terms[starts[right] + offset]:
            return False
    return True


@kernel(types.uint64, read(uint32), read(uint64), read(uint64), read(uint32), write(uint32), write(uint32))
def number_distinct(terms, starts, ends, residuals, table, numbers):  # type: ignore[no-untyped-def]
    """Give equal conjunctions the same number, in order of occurrence; return how many are distinct.

    Conjunctions are equal only if they also have the same residual (numbered from 1; 0 means none). `table` must be
    zero and its size a power of two larger than the number of conjunctions. On return it contains, in arbitrary order,
    the first conjunction of each number, plus one.
    """
    mask = uint64(table.size - 1)
    distinct = _ZERO
    for number in range(uint64(numbers.size)):
        value = uint64(residuals[number]) * _PRIME
        for at in range(starts[number], ends[number]):
            value = (value ^ uint64(terms[at])) * _PRIME
            value ^= value >> uint64(29)
        slot = value & mask
        while True:
            stored = uint64(table[slot])
            if stored == 0:
                table[slot] = uint32(number + _ONE)
                numbers[number] = uint32(distinct)
                distinct += _ONE
                break
            other = stored - _ONE
            if residuals[other] == residuals[number] and _same(terms, starts, ends, other, number):
                numbers[number] = numbers[other]
                break
            slot = (slot + _ONE) & mask
    return distinct


@kernel(types.void, read(uint32), read(uint64), read(uint64), read(uint32), write(uint64))
def fill_sort_keys(terms, starts, ends, chosen, keys):  # type: ignore[no-untyped-def]
    """Fill the sort keys of entries: by anchor, then by second term; those without terms last."""
    for entry in range(uint64(chosen.size)):
        conjunction = uint64(chosen[entry])
        first, size = starts[conjunction], ends[conjunction] - starts[conjunction]
        key = uint64(terms[first]) if size > 0 else uint64(NO_TERM)
        second = uint64(terms[first + _ONE]) if size > 1 else _ZERO
        keys[entry] = (key << uint64(32)) | second


@kernel(
    types.void, read(uint32), read(uint64), read(uint64), read(uint32), read(uint32), write(uint32), write(uint32, 2)
)
def fill_entries(terms, starts, ends, chosen, residuals, second_term, third_fourth_term):  # type: ignore[no-untyped-def]
    """Write the second, third and fourth term of every entry, and the bit of those with a residual."""
    for entry in range(uint64(chosen.size)):
        conjunction = uint64(chosen[entry])
        first, size = starts[conjunction], ends[conjunction] - starts[conjunction]
        second_term[entry] = terms[first + _ONE] if size > 1 else uint32(0)
        third_fourth_term[entry, _ZERO] = terms[first + uint64(2)] if size > 2 else uint32(0)
        fourth = terms[first + uint64(3)] if size > 3 else uint32(0)
        third_fourth_term[entry, _ONE] = fourth | HAS_RESIDUAL if residuals[conjunction] != 0 else fourth


@kernel(uint64, read(uint32), read(uint32), write(uint32), write(uint32), write(uint32, 2))
def list_subscribers(entry, subscription, start, subscribers, scratch):  # type: ignore[no-untyped-def]
    """List the subscriptions of every entry, each once; return how many were listed.

    The conjunctions of one subscription must be adjacent. `scratch` has a row per entry, (last subscription seen,
    filled), initially zero.
    """
    for number in range(uint64(entry.size)):
        at = uint64(entry[number])
        if scratch[at, _ZERO] != subscription[number] + uint32(1):
            scratch[at, _ZERO] = subscription[number] + uint32(1)
            start[at + _ONE] += uint32(1)
    for at in range(uint64(scratch.shape[0])):
        start[at + _ONE] += start[at]
        scratch[at, _ZERO] = uint32(0)
    for number in range(uint64(entry.size)):
        at = uint64(entry[number])
        if scratch[at, _ZERO] != subscription[number] + uint32(1):
            scratch[at, _ZERO] = subscription[number] + uint32(1)
            subscribers[uint64(start[at]) + uint64(scratch[at, _ONE])] = subscription[number]
            scratch[at, _ONE] += uint32(1)
    return uint64(start[uint64(scratch.shape[0])])


def frequency_order(counts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return new numbers for terms 0..n: 0 stays, the others by falling frequency, ties in the old order."""
    order = np.argsort(-counts[1:], kind="stable").astype(np.int64) + 1
    renumbered = np.zeros(len(counts), np.uint32)
    renumbered[order] = np.arange(1, len(counts), dtype=np.uint32)
    return renumbered
