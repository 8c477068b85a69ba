"""Matching kernels, in three steps on flat arrays.

`find_candidates` reads the posting list of every term of a post and compares the second terms of its entries with a
bitmap of the terms of the post. `verify_residuals` checks the few entries with a residual. `report_subscriptions`
replaces entries by their subscriptions, without duplicates per post. Buffers grow between posts, never inside one.
"""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.layout import HAS_RESIDUAL, TERM_MASK
from tidings.jit import inline, kernel, read, write
from tidings.query.residual import check_residual, has_term
from tidings.text.analyzer import COMPANION
from tidings.text.byte_masks import prefetch

# Offsets in the state array.
POST, USED, STATE_SIZE = 0, 1, 2

SINGLE_ENTRY = np.uint32(1 << 31)  # flags a subscription that has only this entry
SEVERAL = np.uint32((1 << 31) - 1)  # an entry with several subscriptions or with removed ones

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def term_buffer(bounds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return scratch space for the terms of the longest post."""
    return np.empty(int((bounds[:, 1] - bounds[:, 0]).max(initial=0)) + 1, np.uint32)


@inline
def has_entry_terms(bitmap, entry, second_term, third_fourth):  # type: ignore[no-untyped-def]
    """Whether the bitmap of a post has the terms of an entry, up to four."""
    if not has_term(bitmap, uint64(second_term[entry])):
        return False
    return has_term(bitmap, uint64(third_fourth[entry, _ZERO])) and has_term(
        bitmap, uint64(third_fourth[entry, _ONE] & TERM_MASK)
    )


@inline
def _mark(bitmap, terms, start, end):  # type: ignore[no-untyped-def]
    for at in range(start, end):
        term = uint64(terms[at] & TERM_MASK)
        bitmap[term >> uint64(3)] |= uint8(1) << uint8(term & uint64(7))
    bitmap[_ZERO] |= uint8(1)  # every post has term 0, "no further term"


@inline
def _mark_and_list_anchors(bitmap, terms, start, end, posting_start, second_term, anchors):  # type: ignore[no-untyped-def]
    """Mark the terms of one post; list the distinct ones with postings that are no companions, and prefetch these."""
    count = _ZERO
    bitmap[_ZERO] |= uint8(1)
    for at in range(start, end):
        term = uint64(terms[at] & TERM_MASK)
        byte, bit = term >> uint64(3), uint8(1) << uint8(term & uint64(7))
        first = uint64(posting_start[term])
        prefetch(second_term, first)
        anchors[count] = terms[at]
        is_anchor = terms[at] < COMPANION and first < uint64(posting_start[term + _ONE])
        count += uint64(is_anchor and bitmap[byte] & bit == 0)
        bitmap[byte] |= bit
    return count


@inline
def unmark(bitmap, terms, start, end):  # type: ignore[no-untyped-def]
    for at in range(start, end):
        bitmap[uint64(terms[at] & TERM_MASK) >> uint64(3)] = uint8(0)


@inline
def _read_postings(post, term, posting_start, second_term, third_fourth, bitmap, pairs, used):  # type: ignore[no-untyped-def]
    """Append the entries of one posting list that the post satisfies; return capacity + 1 if they do not fit."""
    capacity = uint64(pairs.shape[0])
    for entry in range(uint64(posting_start[term]), uint64(posting_start[term + _ONE])):
        if has_entry_terms(bitmap, uint64(entry), second_term, third_fourth):
            if used >= capacity:
                return capacity + _ONE
            pairs[used, _ZERO], pairs[used, _ONE] = post, uint32(entry)
            used += _ONE
    return used


@kernel(
    types.boolean,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32),
    read(uint32, 2),
    write(uint8),
    write(uint32),
    write(uint32, 2),
    write(uint64),
)
def find_candidates(terms, bounds, posting_start, second_term, third_fourth, bitmap, anchors, pairs, state):  # type: ignore[no-untyped-def]
    """Write (post, entry) for all entries whose first four terms a post has; return False if `pairs` must grow.

    `anchors` is scratch space for the terms of the longest post.
    """
    used = uint64(state[USED])
    capacity = uint64(pairs.shape[0])
    for post in range(uint64(state[POST]), uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        before = used
        for number in range(_mark_and_list_anchors(bitmap, terms, start, end, posting_start, second_term, anchors)):
            if used <= capacity:
                term = uint64(anchors[number])
                used = _read_postings(uint32(post), term, posting_start, second_term, third_fourth, bitmap, pairs, used)
        unmark(bitmap, terms, start, end)
        if used > capacity:
            state[POST], state[USED] = post, before
            return False
    state[POST], state[USED] = uint64(bounds.shape[0]), used
    return True


@inline
def _find_residual(residual_entries, entry):  # type: ignore[no-untyped-def]
    """Return the row of an entry among those with a residual."""
    low, high = _ZERO, uint64(residual_entries.size)
    while low < high:
        middle = (low + high) >> _ONE
        if residual_entries[middle] < entry:
            low = middle + _ONE
        else:
            high = middle
    return low


@kernel(
    uint64,
    write(uint32, 2),
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint64),
    read(uint32),
    read(float64),
    read(float64),
    read(uint32, 2),
    write(uint8),
)
def verify_residuals(  # type: ignore[no-untyped-def]
    pairs, terms, bounds, residual_entries, residual_start, code, regions, positions, third_fourth, bitmap
):
    """Keep the pairs whose entry has no residual or whose residual the post satisfies; return their number."""
    count = _ZERO
    marked = uint64(0xFFFFFFFF)
    start, end = _ZERO, _ZERO
    for number in range(uint64(pairs.shape[0])):
        post, entry = uint64(pairs[number, _ZERO]), pairs[number, _ONE]
        if third_fourth[uint64(entry), _ONE] & HAS_RESIDUAL:
            if post != marked:
                unmark(bitmap, terms, start, end)
                start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
                _mark(bitmap, terms, start, end)
                marked = post
            at = residual_start[_find_residual(residual_entries, entry)]
            lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
            if not check_residual(code, at, regions, bitmap, terms, start, end, lon, lat):
                continue
        pairs[count, _ZERO], pairs[count, _ONE] = uint32(post), entry
        count += _ONE
    unmark(bitmap, terms, start, end)
    return count


@kernel(types.void, read(uint32), read(uint32), read(uint8), write(uint8), write(uint32))
def list_reporters(subscriber_start, subscribers, removed, entry_counts, reporters):  # type: ignore[no-untyped-def]
    """Write what to report per entry: its only subscription, or `SEVERAL` if there are several or removed ones.

    `SINGLE_ENTRY` flags subscriptions that no other entry has. `entry_counts` is scratch, one zero per subscription.
    """
    for at in range(uint64(subscribers.size)):
        subscriber = uint64(subscribers[at])
        entry_counts[subscriber] = min(uint8(2), entry_counts[subscriber] + uint8(1))
    for entry in range(uint64(reporters.size)):
        start, end = uint64(subscriber_start[entry]), uint64(subscriber_start[entry + _ONE])
        reporters[entry] = SEVERAL
        if end - start == _ONE and not (removed.size > 0 and removed[uint64(subscribers[start])]):
            is_only = entry_counts[uint64(subscribers[start])] == 1
            reporters[entry] = subscribers[start] | SINGLE_ENTRY if is_only else subscribers[start]


@inline
def _is_first(seen, subscriber):  # type: ignore[no-untyped-def]
    """Mark a subscription as seen; return whether it was new."""
    byte, bit = subscriber >> uint64(3), uint8(1) << uint8(subscriber & uint64(7))
    is_new = seen[byte] & bit == 0
    seen[byte] |= bit
    return is_new


@inline
def _report_once(entry, reporter, subscriber_start, subscribers, removed, seen, hits, used):  # type: ignore[no-untyped-def]
    """Append the subscriptions of an entry that are not seen yet."""
    if reporter != SEVERAL:
        hits[used] = reporter
        return used + uint64(_is_first(seen, uint64(reporter)))
    for at in range(uint64(subscriber_start[entry]), uint64(subscriber_start[entry + _ONE])):
        subscriber = uint64(subscribers[at])
        if removed.size > 0 and removed[subscriber]:
            continue
        hits[used] = uint32(subscriber)
        used += uint64(_is_first(seen, subscriber))
    return used


@kernel(
    types.boolean,
    read(uint32, 2),
    read(uint32),
    read(uint32),
    read(uint32),
    read(uint8),
    write(uint8),
    write(uint32),
    write(uint32),
    write(uint32),
    write(uint64),
)
def report_subscriptions(  # type: ignore[no-untyped-def]
    pairs, reporters, subscriber_start, subscribers, removed, seen, shared, hits, counts, state
):
    """Write the subscriptions of every pair, without removed ones and duplicates per post, and the number per post.

    Pairs are grouped by post. Most entries have one subscription that no other entry has; the others go to `shared` (as
    long as `pairs`) and are looked up in `seen`, a bitmap of the subscriptions written for the current post. Return
    False if `hits` must grow; `state` then has the pair to continue from.
    """
    used, number, capacity = uint64(state[USED]), uint64(state[POST]), uint64(hits.size)
    while number < uint64(pairs.shape[0]):
        post, start, first, shared_count = pairs[number, _ZERO], number, used, _ZERO
        while number < uint64(pairs.shape[0]) and pairs[number, _ZERO] == post:
            number += _ONE
        is_full = used + (number - start) + _ONE > capacity
        for at in range(start, start if is_full else number):
            reporter = reporters[uint64(pairs[at, _ONE])]
            is_only = uint64((reporter & SINGLE_ENTRY) != 0)
            hits[used] = reporter ^ SINGLE_ENTRY
            used += is_only
            shared[shared_count] = pairs[at, _ONE]
            shared_count += _ONE - is_only
        middle = used
        for at in range(shared_count):
            entry = uint64(shared[at])
            count = subscriber_start[entry + _ONE] - subscriber_start[entry]
            needed = uint64(count) if reporters[entry] == SEVERAL else _ONE
            if used + (shared_count - at) + needed > capacity:
                is_full = True
                break
            used = _report_once(entry, reporters[entry], subscriber_start, subscribers, removed, seen, hits, used)
        for at in range(middle, used):
            seen[uint64(hits[at]) >> uint64(3)] = uint8(0)
        if is_full:
            state[POST], state[USED] = start, first
            return False
        counts[uint64(post)] = uint32(used - first)
    state[POST], state[USED] = number, used
    return True
