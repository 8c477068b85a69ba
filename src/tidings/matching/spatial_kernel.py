"""Matching kernels for regions: candidates from the posting lists of grid cells (`index/spatial_postings.py`)."""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import SIZES, find_postings_at, is_outside, is_within, margins_to_box, slot_of
from tidings.index.layout import TERM_MASK
from tidings.jit import inline, kernel, read, write
from tidings.matching.postings_kernel import POST, USED, has_entry_terms, unmark
from tidings.query.geo.geometry import is_inside
from tidings.query.residual import has_term
from tidings.text.analyzer import COMPANION
from tidings.text.byte_masks import prefetch

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
_CELL = np.uint64(0xFFFFFFFF << 32)  # the upper half of a grid position, as in the key of a posting list


def anchor_cell_sizes(keys: NDArray[np.uint64], terms: int) -> NDArray[np.uint8]:
    """Return for every term a bitmap of the cell sizes that have postings for it; most terms have none."""
    flags = np.zeros(terms + 1, np.uint8)
    np.bitwise_or.at(flags, (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), _size_bits(keys))
    return flags


def _size_bits(keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (keys >> np.uint64(60)).astype(np.uint8))


@inline
def _mark_and_list_anchors(bitmap, terms, start, end, anchor_sizes, anchors):  # type: ignore[no-untyped-def]
    """Mark the terms of one post; list the distinct ones with postings, starting with 0 (no term)."""
    anchors[_ZERO] = uint32(0)
    count = uint64(anchor_sizes[_ZERO] != 0)
    bitmap[_ZERO] |= uint8(1)
    for at in range(start, end):
        term = uint64(terms[at] & TERM_MASK)
        byte, bit = term >> uint64(3), uint8(1) << uint8(term & uint64(7))
        anchors[count] = terms[at]
        count += uint64(terms[at] < COMPANION and anchor_sizes[term] != 0 and bitmap[byte] & bit == 0)
        bitmap[byte] |= bit
    return count


@inline
def _prepare_probes(post, cell_positions, anchor_sizes, anchors, count, table, probes):  # type: ignore[no-untyped-def]
    """Write slot, key and grid position of every posting list a post may need, and prefetch the slots."""
    prepared = _ZERO
    mask = uint64(table.size - 1)
    for number in range(count):
        term = uint64(anchors[number])
        for size in range(uint64(SIZES)):
            position = cell_positions[post, size]
            key = position & _CELL | term
            slot = slot_of(key, mask)
            probes[prepared, _ZERO], probes[prepared, _ONE], probes[prepared, _TWO] = slot, key, position
            prefetch(table, slot)
            prepared += uint64((anchor_sizes[term] >> uint8(size)) & uint8(1))
    return prepared


@inline
def _find_postings(probes, probed, table, keys, starts, postings):  # type: ignore[no-untyped-def]
    """Keep grid position and offset of the posting lists that exist, and prefetch their postings."""
    for number in range(probed):
        found_at = uint64(table[probes[number, _ZERO]])
        prefetch(keys, found_at - uint64(found_at != 0))
        prefetch(starts, _TWO * (found_at - uint64(found_at != 0)))
    count = _ZERO
    for number in range(probed):
        found_at = find_postings_at(table, keys, probes[number, _ONE], probes[number, _ZERO])
        if found_at != 0:
            probes[count, _ZERO], probes[count, _ONE] = probes[number, _TWO], _TWO * (found_at - _ONE)
            prefetch(postings, _TWO * uint64(starts[_TWO * (found_at - _ONE)]))
            count += _ONE
    return count


@inline
def _check_boxes(post, position, first, last, postings, pairs, used, undecided):  # type: ignore[no-untyped-def]
    """Append the entries whose box certainly contains the post and collect the undecided ones; return both counts.

    Branch-free: about half of the postings match, which no branch predictor can guess.
    """
    undecided_count = _ZERO
    for at in range(first, last):
        entry = postings[at, _ONE]
        margins = margins_to_box(position, postings[at, _ZERO])
        within = uint64(is_within(margins))
        pairs[used, _ZERO], pairs[used, _ONE] = post, entry
        used += within
        undecided[undecided_count] = entry
        undecided_count += (_ONE - uint64(is_outside(margins))) ^ within
    return used, undecided_count


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
def find_spatial_candidates(  # type: ignore[no-untyped-def]
    terms,
    bounds,
    cell_positions,
    positions,
    anchor_sizes,
    table,
    keys,
    starts,
    postings,
    second_term,
    third_fourth,
    entry_region,
    regions,
    bitmap,
    anchors,
    probes,
    undecided,
    pairs,
    state,
):
    """Write (post, entry) for all entries in the postings of a post's cells and terms, before residuals.

    Scratch: `anchors` one more than the terms of the longest post, `probes` one per anchor and cell size, `undecided`
    the length of the longest posting list. Return False if `pairs` must grow.
    """
    used = uint64(state[USED])
    capacity = uint64(pairs.shape[0])
    first_with_region = uint64(second_term.size - entry_region.size)
    for post in range(uint64(state[POST]), uint64(bounds.shape[0])):
        if cell_positions[post, _ZERO] == _NOWHERE:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        before = used
        is_full = False
        anchor_count = _mark_and_list_anchors(bitmap, terms, start, end, anchor_sizes, anchors)
        probed = _prepare_probes(post, cell_positions, anchor_sizes, anchors, anchor_count, table, probes)
        for number in range(_find_postings(probes, probed, table, keys, starts, postings)):
            at = probes[number, _ONE]
            first, split, last = uint64(starts[at]), uint64(starts[at + _ONE]), uint64(starts[at + _TWO])
            if used + (last - first) > capacity:
                is_full = True
                break
            position = probes[number, _ZERO]
            used, count = _check_boxes(uint32(post), position, first, split, postings, pairs, used, undecided)
            for row in range(count):
                entry = uint64(undecided[row])
                pairs[used, _ZERO], pairs[used, _ONE] = uint32(post), uint32(entry)
                used += uint64(is_inside(regions, entry_region[entry - first_with_region], lon, lat))
            for posting in range(split, last):
                entry = uint64(postings[posting, _ONE])
                if has_term(bitmap, uint64(postings[posting, _ZERO])) and has_entry_terms(
                    bitmap, entry, second_term, third_fourth
                ):
                    pairs[used, _ZERO], pairs[used, _ONE] = uint32(post), uint32(entry)
                    used += uint64(is_inside(regions, entry_region[entry - first_with_region], lon, lat))
        unmark(bitmap, terms, start, end)
        if is_full:
            state[POST], state[USED] = post, before
            return False
    state[POST], state[USED] = uint64(bounds.shape[0]), used
    return True
