"""The compiled form of a set of conjunctions: flat arrays, ordered so that matching reads them in a line.

Terms are numbered by how often they occur, so the largest number of a conjunction is its rarest word. A conjunction is
an *entry* in the list of its rarest word (`list_start`); `second` holds the second-rarest words of all entries one
after another, `rest` the third and fourth. A word that is not there is term 0, which every post holds.
Entries that need more than four words (negations, phrases, regions, more words) carry the top bit in ``rest[·, 1]``
and have a *program* that is run once their words are there. Entries that ask for a region come last; they are in no
list of a word, but in lists of cells (`cell_lists.py`).
"""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write

HAS_PROGRAM = np.uint32(0x80000000)
TERM_MASK = np.uint32(0x7FFFFFFF)
INLINE_TERMS = 4
NO_WORD = np.uint32(0xFFFFFFFF)  # in sort keys, so that what has no word comes last

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@kernel(types.void, write(uint32), write(uint64), write(uint64))
def sort_terms(terms, starts, ends):  # type: ignore[no-untyped-def]
    """Order the terms of every conjunction from the rarest down and drop repetitions; ends[i] shrinks accordingly."""
    for number in range(uint64(ends.size)):
        base = starts[number]
        used = base
        for at in range(base, ends[number]):
            term = terms[at]
            place = used
            while place > base and terms[place - _ONE] < term:
                place -= _ONE
            if place > base and terms[place - _ONE] == term:
                continue
            move = used
            while move > place:
                terms[move] = terms[move - _ONE]
                move -= _ONE
            terms[place] = term
            used += _ONE
        ends[number] = used


@inlined
def _same(terms, starts, ends, left, right):  # type: ignore[no-untyped-def]
    if ends[left] - starts[left] != ends[right] - starts[right]:
        return False
    for offset in range(ends[left] - starts[left]):
        if terms[starts[left] + offset] != terms[starts[right] + offset]:
            return False
    return True


@kernel(types.uint64, read(uint32), read(uint64), read(uint64), read(uint32), write(uint32), write(uint32))
def number_distinct(terms, starts, ends, programs, table, numbers):  # type: ignore[no-untyped-def]
    """Number equal conjunctions alike, in order of first sight; returns how many there are.

    Conjunctions with a program (numbered from 1, equal programs alike) are equal only with the same one.
    `table` must be zero and a power of two larger than the number of conjunctions; it ends up holding for each distinct
    one (found by its number) the first conjunction that has it, plus one, in a scattered order.
    """
    mask = uint64(table.size - 1)
    distinct = _ZERO
    for number in range(uint64(numbers.size)):
        value = uint64(programs[number]) * _PRIME
        for at in range(starts[number], ends[number]):
            value = (value ^ uint64(terms[at])) * _PRIME
            value ^= value >> uint64(29)
        slot = value & mask
        while True:
            held = uint64(table[slot])
            if held == 0:
                table[slot] = uint32(number + _ONE)
                numbers[number] = uint32(distinct)
                distinct += _ONE
                break
            other = held - _ONE
            if programs[other] == programs[number] and _same(terms, starts, ends, other, number):
                numbers[number] = numbers[other]
                break
            slot = (slot + _ONE) & mask
    return distinct


@kernel(types.void, read(uint32), read(uint64), read(uint64), read(uint32), write(uint64))
def sort_keys(terms, starts, ends, chosen, keys):  # type: ignore[no-untyped-def]
    """The order of entries: by rarest word, then by second; those without any word last."""
    for entry in range(uint64(chosen.size)):
        conjunction = uint64(chosen[entry])
        first, size = starts[conjunction], ends[conjunction] - starts[conjunction]
        key = uint64(terms[first]) if size > 0 else uint64(NO_WORD)
        second = uint64(terms[first + _ONE]) if size > 1 else _ZERO
        keys[entry] = (key << uint64(32)) | second


@kernel(
    types.void, read(uint32), read(uint64), read(uint64), read(uint32), read(uint32), write(uint32), write(uint32, 2)
)
def fill_entries(terms, starts, ends, chosen, programs, second, rest):  # type: ignore[no-untyped-def]
    """Write second, third and fourth word of every entry, and the mark of those that have a program."""
    for entry in range(uint64(chosen.size)):
        conjunction = uint64(chosen[entry])
        first, size = starts[conjunction], ends[conjunction] - starts[conjunction]
        second[entry] = terms[first + _ONE] if size > 1 else uint32(0)
        rest[entry, _ZERO] = terms[first + uint64(2)] if size > 2 else uint32(0)
        fourth = terms[first + uint64(3)] if size > 3 else uint32(0)
        rest[entry, _ONE] = fourth | HAS_PROGRAM if programs[conjunction] != 0 else fourth


@kernel(uint64, read(uint32), read(uint32), write(uint32), write(uint32), write(uint32, 2))
def hold(entry, owner, start, holders, scratch):  # type: ignore[no-untyped-def]
    """List the owners of every entry, each once; returns how many were listed.

    The conjunctions of one owner must stand together. `scratch` has a row an entry: (last owner seen, filled), zero.
    """
    for number in range(uint64(entry.size)):
        place = uint64(entry[number])
        if scratch[place, _ZERO] != owner[number] + uint32(1):
            scratch[place, _ZERO] = owner[number] + uint32(1)
            start[place + _ONE] += uint32(1)
    for place in range(uint64(scratch.shape[0])):
        start[place + _ONE] += start[place]
        scratch[place, _ZERO] = uint32(0)
    for number in range(uint64(entry.size)):
        place = uint64(entry[number])
        if scratch[place, _ZERO] != owner[number] + uint32(1):
            scratch[place, _ZERO] = owner[number] + uint32(1)
            holders[uint64(start[place]) + uint64(scratch[place, _ONE])] = owner[number]
            scratch[place, _ONE] += uint32(1)
    return uint64(start[uint64(scratch.shape[0])])


def frequency_order(counts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """New numbers for terms 0..n: 0 stays, then from the most to the least frequent, ties in the old order."""
    order = np.argsort(-counts[1:], kind="stable").astype(np.int64) + 1
    renumbered = np.zeros(len(counts), np.uint32)
    renumbered[order] = np.arange(1, len(counts), dtype=np.uint32)
    return renumbered
