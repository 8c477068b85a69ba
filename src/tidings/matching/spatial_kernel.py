"""Find by place: entries that ask for a region, in the lists of the cells a post lies in (`index/cell_lists.py`)."""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import SIZES, ahead, is_outside, is_within, list_at, slot_of
from tidings.jit import inlined, kernel, read, write
from tidings.matching.postings_kernel import POST, USED, has, holds, unmark
from tidings.query.geo.geometry import inside
from tidings.text.byte_masks import prefetch

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
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
def _ask_for_lists(post, places, leading, listed, count, table, probes):  # type: ignore[no-untyped-def]
    """Write down slot and key of every list a post may be in, and have the memory of the slots brought."""
    asked = _ZERO
    mask = uint64(table.size - 1)
    for number in range(count):
        term = uint64(listed[number])
        for size in range(uint64(SIZES)):
            place = places[post, size]
            key = place & _CELL | term
            slot = slot_of(key, mask)
            probes[asked, _ZERO], probes[asked, _ONE], probes[asked, _TWO] = slot, key, place
            prefetch(table, slot)
            asked += uint64((leading[term] >> uint8(size)) & uint8(1))
    return asked


@inlined
def _find_lists(probes, asked, table, keys, starts, items):  # type: ignore[no-untyped-def]
    """Keep place and list of those that are there, and have the memory of their items brought."""
    for number in range(asked):
        held = uint64(table[probes[number, _ZERO]])
        prefetch(keys, held - uint64(held != 0))
        prefetch(starts, _TWO * (held - uint64(held != 0)))
    found = _ZERO
    for number in range(asked):
        held = list_at(table, keys, probes[number, _ONE], probes[number, _ZERO])
        if held != 0:
            probes[found, _ZERO], probes[found, _ONE] = probes[number, _TWO], _TWO * (held - _ONE)
            prefetch(items, _TWO * uint64(starts[_TWO * (held - _ONE)]))
            found += _ONE
    return found


@inlined
def _judge_parts(post, place, first, last, items, pairs, used, doubts):  # type: ignore[no-untyped-def]
    """Append the entries whose rectangle certainly holds the post; returns how many there are now, and how many are
    in doubt, which are written down. Without a branch: about half of the items match, which cannot be guessed."""
    doubted = _ZERO
    for at in range(first, last):
        entry = items[at, _ONE]
        lead = ahead(place, items[at, _ZERO])
        within = uint64(is_within(lead))
        pairs[used, _ZERO], pairs[used, _ONE] = post, entry
        used += within
        doubts[doubted] = entry
        doubted += (_ONE - uint64(is_outside(lead))) ^ within
    return used, doubted


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
    write(uint64, 2),
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
    probes,
    doubts,
    pairs,
    state,
):
    """Write (post, entry) of all entries in the lists of a post's cells and words that want it, but for their programs.

    `listed` has room for one more than the words of the longest post, `probes` for one in every size of cell, `doubts`
    for the items of the longest list. False when `pairs` must grow first.
    """
    used = uint64(state[USED])
    room = uint64(pairs.shape[0])
    first_asking = uint64(second.size - asked.size)
    for post in range(uint64(state[POST]), uint64(bounds.shape[0])):
        if places[post, _ZERO] == _NOWHERE:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        before = used
        is_full = False
        words = _mark_and_list(bitmap, terms, start, end, leading, listed)
        probed = _ask_for_lists(post, places, leading, listed, words, table, probes)
        for number in range(_find_lists(probes, probed, table, keys, starts, items)):
            at = probes[number, _ONE]
            first, split, last = uint64(starts[at]), uint64(starts[at + _ONE]), uint64(starts[at + _TWO])
            if used + (last - first) > room:
                is_full = True
                break
            used, doubted = _judge_parts(uint32(post), probes[number, _ZERO], first, split, items, pairs, used, doubts)
            for doubt in range(doubted):
                entry = uint64(doubts[doubt])
                pairs[used, _ZERO], pairs[used, _ONE] = uint32(post), uint32(entry)
                used += uint64(inside(regions, asked[entry - first_asking], lon, lat))
            for item in range(split, last):
                entry = uint64(items[item, _ONE])
                if has(bitmap, uint64(items[item, _ZERO])) and holds(bitmap, entry, second, rest):
                    pairs[used, _ZERO], pairs[used, _ONE] = uint32(post), uint32(entry)
                    used += uint64(inside(regions, asked[entry - first_asking], lon, lat))
        unmark(bitmap, terms, start, end)
        if is_full:
            state[POST], state[USED] = post, before
            return False
    state[POST], state[USED] = uint64(bounds.shape[0]), used
    return True
