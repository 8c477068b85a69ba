"""Find by place: entries that ask for a region, in the lists of the cells a post lies in (`index/cell_lists.py`)."""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.cell_lists import ASKS_MORE, ENTRY, IS_ROUGH
from tidings.index.grid import SIZES, along, find_list, is_outside, is_within, up
from tidings.index.shape import inside
from tidings.jit import inlined, kernel, read, write
from tidings.match.flat import POST, USED, has, holds, unmark

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
_CELL = np.uint64(0xFFFFFFFF << 32)  # of a place: the upper half, as in the key of a list


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
def _wants(told, marked, place, lon, lat, second, rest, asked, regions, bitmap):  # type: ignore[no-untyped-def]
    """Whether a post has the words of an item's entry, up to four, and lies in the region the entry is listed for."""
    entry = uint64(marked & ENTRY)
    if marked & ASKS_MORE:
        if not (has(bitmap, uint64(told)) and holds(bitmap, entry, second, rest)):
            return False
    elif is_outside(told, along(place), up(place)):
        return False
    elif is_within(told, along(place), up(place)) and marked & IS_ROUGH == 0:
        return True
    return inside(regions, asked[entry - uint64(second.size - asked.size)], lon, lat)


@kernel(
    types.boolean,
    read(uint32),
    read(uint32, 2),
    read(uint64, 2),
    read(float64),
    read(uint8),
    read(uint32),
    read(uint64),
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(float64),
    write(uint8),
    write(uint32),
    write(uint32, 2),
    write(uint64),
)
def locate(  # type: ignore[no-untyped-def]
    terms,
    bounds,
    places,
    positions,
    leading,
    table,
    keys,
    starts,
    items,
    second,
    rest,
    asked,
    regions,
    bitmap,
    listed,
    pairs,
    state,
):
    """Write (post, entry) of all entries in the lists of a post's cells and words that want it, but for their programs.

    `listed` has room for one more than the words of the longest post. False when `pairs` must grow first.
    """
    used = uint64(state[USED])
    room = uint64(pairs.shape[0])
    for post in range(uint64(state[POST]), uint64(bounds.shape[0])):
        if places[post, _ZERO] == _NOWHERE:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        before = used
        for number in range(_mark_and_list(bitmap, terms, start, end, leading, listed)):
            term = uint64(listed[number])
            for size in range(uint64(SIZES)):
                if (leading[term] >> uint8(size)) & uint8(1) == 0:
                    continue
                place = places[post, size]
                found = find_list(table, keys, place & _CELL | term)
                if found == 0:
                    continue
                for at in range(uint64(starts[found - _ONE]), uint64(starts[found])):
                    told, marked = items[at, _ZERO], items[at, _ONE]
                    if _wants(told, marked, place, lon, lat, second, rest, asked, regions, bitmap):
                        if used < room:
                            pairs[used, _ZERO], pairs[used, _ONE] = uint32(post), marked & ENTRY
                        used += _ONE
        unmark(bitmap, terms, start, end)
        if used > room:
            state[POST], state[USED] = post, before
            return False
    state[POST], state[USED] = uint64(bounds.shape[0]), used
    return True
