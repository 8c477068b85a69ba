"""Find by place: the entries that ask for a region, through the lists of the cells a post lies in (`index/grid.py`)."""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import SIZES, find_list
from tidings.jit import inlined, kernel, read, write
from tidings.match.flat import POST, USED, holds, unmark

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)


def leading_words(keys: NDArray[np.uint64], terms: int) -> NDArray[np.uint8]:
    """For every term, which sizes of cells (as bits) have a list of it: most words of a post have none."""
    flags = np.zeros(terms + 1, np.uint8)
    np.bitwise_or.at(flags, (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), _size_bits(keys))
    return flags


def _size_bits(keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (keys >> np.uint64(60)).astype(np.uint8))


@inlined
def _mark_and_list(bitmap, terms, start, end, leading, listed):  # type: ignore[no-untyped-def]
    """Mark the words of a post and write down those that may lead anywhere, each once; 0, no word, is the first."""
    listed[_ZERO] = uint32(0)
    count = uint64(leading[_ZERO] != 0)
    bitmap[_ZERO] |= uint8(1)
    for at in range(start, end):
        term = uint64(terms[at])
        place, bit = term >> uint64(3), uint8(1) << uint8(term & uint64(7))
        listed[count] = terms[at]
        count += uint64(leading[term] != 0 and bitmap[place] & bit == 0)
        bitmap[place] |= bit
    return count


@inlined
def _read_list(post, first, last, entries, second, rest, bitmap, pairs, used):  # type: ignore[no-untyped-def]
    """Append the entries of one list whose words the post has; used > room says that they did not fit."""
    room = uint64(pairs.shape[0])
    for at in range(first, last):
        entry = uint64(entries[at])
        if holds(bitmap, entry, second, rest):
            if used >= room:
                return room + _ONE
            pairs[used, _ZERO], pairs[used, _ONE] = post, uint32(entry)
            used += _ONE
    return used


@kernel(
    types.boolean,
    read(uint32),
    read(uint32, 2),
    read(uint64, 2),
    read(uint8),
    read(uint32),
    read(uint64),
    read(uint32),
    read(uint32),
    read(uint32),
    read(uint32, 2),
    write(uint8),
    write(uint32),
    write(uint32, 2),
    write(uint64),
)
def locate(  # type: ignore[no-untyped-def]
    terms, bounds, cells, leading, table, keys, starts, entries, second, rest, bitmap, listed, pairs, state
):
    """Write (post, entry) of all entries in the lists of a post's cells and words whose first four words it holds.

    `listed` has room for one more than the words of the longest post. False when `pairs` must grow first.
    """
    used = uint64(state[USED])
    room = uint64(pairs.shape[0])
    for post in range(uint64(state[POST]), uint64(bounds.shape[0])):
        if cells[post, _ZERO] == _NOWHERE:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        before = used
        for number in range(_mark_and_list(bitmap, terms, start, end, leading, listed)):
            term = uint64(listed[number])
            for size in range(uint64(SIZES)):
                if used > room or (leading[term] >> uint8(size)) & uint8(1) == 0:
                    continue
                found = find_list(table, keys, cells[post, size] | term)
                if found != 0:
                    first, last = uint64(starts[found - _ONE]), uint64(starts[found])
                    used = _read_list(uint32(post), first, last, entries, second, rest, bitmap, pairs, used)
        unmark(bitmap, terms, start, end)
        if used > room:
            state[POST], state[USED] = post, before
            return False
    state[POST], state[USED] = uint64(bounds.shape[0]), used
    return True
