"""The compiled matcher: three passes over flat arrays. find → verify → report.

*find* reads, for every word of a post, the second-rarest words of the entries in its list and tests them against a
bitmap of the post's words. *verify* runs the programs of the few entries that have one. *report* replaces entries by
the subscriptions that hold them, each once a post. Buffers grow between posts, never inside one.
"""

from __future__ import annotations

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.layout import HAS_PROGRAM, TERM_MASK
from tidings.jit import inlined, kernel, read, write
from tidings.query.residual import run
from tidings.text.byte_masks import prefetch

# Places in the state array.
POST, USED, STATE_SIZE = 0, 1, 2

ONLY_HERE = np.uint32(1 << 31)  # a subscription that one entry alone leads to
MANY = np.uint32((1 << 31) - 1)  # an entry held by several, or by some who are gone

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def room_for_words(bounds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Scratch space for the words of the longest post."""
    return np.empty(int((bounds[:, 1] - bounds[:, 0]).max(initial=0)) + 1, np.uint32)


@inlined
def has(bitmap, term):  # type: ignore[no-untyped-def]
    return (bitmap[term >> uint64(3)] >> uint8(term & uint64(7))) & uint8(1) != 0


@inlined
def holds(bitmap, entry, second, rest):  # type: ignore[no-untyped-def]
    """Whether a post whose words are marked has the words of an entry, up to four."""
    if not has(bitmap, uint64(second[entry])):
        return False
    return has(bitmap, uint64(rest[entry, _ZERO])) and has(bitmap, uint64(rest[entry, _ONE] & TERM_MASK))


@inlined
def _mark(bitmap, terms, start, end):  # type: ignore[no-untyped-def]
    for at in range(start, end):
        term = uint64(terms[at])
        bitmap[term >> uint64(3)] |= uint8(1) << uint8(term & uint64(7))
    bitmap[_ZERO] |= uint8(1)  # every post holds term 0, "no further word"


@inlined
def _mark_and_list(bitmap, terms, start, end, list_start, second, listed):  # type: ignore[no-untyped-def]
    """Mark the words of a post and write down those that have a list, each once; the lists are asked for at once."""
    count = _ZERO
    bitmap[_ZERO] |= uint8(1)
    for at in range(start, end):
        term = uint64(terms[at])
        place, bit = term >> uint64(3), uint8(1) << uint8(term & uint64(7))
        first = uint64(list_start[term])
        prefetch(second, first)
        listed[count] = terms[at]
        count += uint64(first < uint64(list_start[term + _ONE]) and bitmap[place] & bit == 0)
        bitmap[place] |= bit
    return count


@inlined
def unmark(bitmap, terms, start, end):  # type: ignore[no-untyped-def]
    for at in range(start, end):
        bitmap[uint64(terms[at]) >> uint64(3)] = uint8(0)


@inlined
def _read_list(post, term, list_start, second, rest, bitmap, pairs, used):  # type: ignore[no-untyped-def]
    """Append the entries of one list that the post satisfies; used > room says that they did not fit."""
    room = uint64(pairs.shape[0])
    for entry in range(uint64(list_start[term]), uint64(list_start[term + _ONE])):
        if holds(bitmap, uint64(entry), second, rest):
            if used >= room:
                return room + _ONE
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
def find(terms, bounds, list_start, second, rest, bitmap, listed, pairs, state):  # type: ignore[no-untyped-def]
    """Write (post, entry) of all entries whose first four words a post holds; False when `pairs` must grow first.

    `listed` has room for the words of the longest post.
    """
    used = uint64(state[USED])
    room = uint64(pairs.shape[0])
    for post in range(uint64(state[POST]), uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        before = used
        for number in range(_mark_and_list(bitmap, terms, start, end, list_start, second, listed)):
            if used <= room:
                term = uint64(listed[number])
                used = _read_list(uint32(post), term, list_start, second, rest, bitmap, pairs, used)
        unmark(bitmap, terms, start, end)
        if used > room:
            state[POST], state[USED] = post, before
            return False
    state[POST], state[USED] = uint64(bounds.shape[0]), used
    return True


@inlined
def _program_of(programmed, entry):  # type: ignore[no-untyped-def]
    """The place of an entry among those that have a program."""
    low, high = _ZERO, uint64(programmed.size)
    while low < high:
        middle = (low + high) >> _ONE
        if programmed[middle] < entry:
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
def verify(pairs, terms, bounds, programmed, program_start, code, regions, positions, rest, bitmap):  # type: ignore[no-untyped-def]
    """Keep the pairs whose entry has no program or whose program the post satisfies; returns how many stay."""
    kept = _ZERO
    marked = uint64(0xFFFFFFFF)
    start, end = _ZERO, _ZERO
    for number in range(uint64(pairs.shape[0])):
        post, entry = uint64(pairs[number, _ZERO]), pairs[number, _ONE]
        if rest[uint64(entry), _ONE] & HAS_PROGRAM:
            if post != marked:
                unmark(bitmap, terms, start, end)
                start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
                _mark(bitmap, terms, start, end)
                marked = post
            at = program_start[_program_of(programmed, entry)]
            lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
            if not run(code, at, regions, bitmap, terms, start, end, lon, lat):
                continue
        pairs[kept, _ZERO], pairs[kept, _ONE] = uint32(post), entry
        kept += _ONE
    unmark(bitmap, terms, start, end)
    return kept


@kernel(types.void, read(uint32), read(uint32), read(uint8), write(uint8), write(uint32))
def list_reporters(holder_start, holders, removed, is_held, reporters):  # type: ignore[no-untyped-def]
    """Who is to be reported for each entry: its holder, marked `ONLY_HERE` where no other entry has the same, or `MANY`
    where several or nobody is left to be looked for. `is_held` has a zero for each subscription."""
    for at in range(uint64(holders.size)):
        holder = uint64(holders[at])
        is_held[holder] = min(uint8(2), is_held[holder] + uint8(1))
    for entry in range(uint64(reporters.size)):
        start, end = uint64(holder_start[entry]), uint64(holder_start[entry + _ONE])
        reporters[entry] = MANY
        if end - start == _ONE and not (removed.size > 0 and removed[uint64(holders[start])]):
            is_only = is_held[uint64(holders[start])] == 1
            reporters[entry] = holders[start] | ONLY_HERE if is_only else holders[start]


@inlined
def _is_first(seen, holder):  # type: ignore[no-untyped-def]
    """Whether a holder was not seen before; from now on it was."""
    place, bit = holder >> uint64(3), uint8(1) << uint8(holder & uint64(7))
    is_new = seen[place] & bit == 0
    seen[place] |= bit
    return is_new


@inlined
def _report_once(entry, reporter, holder_start, holders, removed, seen, hits, used):  # type: ignore[no-untyped-def]
    """Append those who hold an entry and are not seen yet."""
    if reporter != MANY:
        hits[used] = reporter
        return used + uint64(_is_first(seen, uint64(reporter)))
    for at in range(uint64(holder_start[entry]), uint64(holder_start[entry + _ONE])):
        holder = uint64(holders[at])
        if removed.size > 0 and removed[holder]:
            continue
        hits[used] = uint32(holder)
        used += uint64(_is_first(seen, holder))
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
def report(pairs, reporters, holder_start, holders, removed, seen, others, hits, counts, state):  # type: ignore[no-untyped-def]
    """Write the subscription of every holder of every pair, once a post, without removed ones, and how many a post has.

    Pairs of one post stand together. Most have a holder whom no other pair can name; the others, put aside in `others`,
    which has room for all pairs, are looked up in `seen`: a bit for each subscription that was written for the post at
    hand. False when `hits` must grow first; the state then says from which pair on.
    """
    used, number, room = uint64(state[USED]), uint64(state[POST]), uint64(hits.size)
    while number < uint64(pairs.shape[0]):
        post, start, first, aside = pairs[number, _ZERO], number, used, _ZERO
        while number < uint64(pairs.shape[0]) and pairs[number, _ZERO] == post:
            number += _ONE
        is_full = used + (number - start) + _ONE > room
        for at in range(start, start if is_full else number):
            reporter = reporters[uint64(pairs[at, _ONE])]
            is_only = uint64((reporter & ONLY_HERE) != 0)
            hits[used] = reporter ^ ONLY_HERE
            used += is_only
            others[aside] = pairs[at, _ONE]
            aside += _ONE - is_only
        middle = used
        for at in range(aside):
            entry = uint64(others[at])
            held = uint64(holder_start[entry + _ONE] - holder_start[entry]) if reporters[entry] == MANY else _ONE
            if used + (aside - at) + held > room:
                is_full = True
                break
            used = _report_once(entry, reporters[entry], holder_start, holders, removed, seen, hits, used)
        for at in range(middle, used):
            seen[uint64(hits[at]) >> uint64(3)] = uint8(0)
        if is_full:
            state[POST], state[USED] = start, first
            return False
        counts[uint64(post)] = uint32(used - first)
    state[POST], state[USED] = number, used
    return True
