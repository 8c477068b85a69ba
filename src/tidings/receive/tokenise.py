"""The compiled cleaner: UTF-8 bytes of a whole Arrow column to term numbers, by the rules of `clean.py`.

Bits tell where words are (`marks.py`). Nearly all are ASCII letters and digits between ASCII separators and are taken
whole; only runs with other bytes are decoded character by character. The raw tokens of a row (lower-cased in ASCII) are
collected first and looked up in the lexicon afterwards, when the memory asked for meanwhile has come: a look-up that
waits for memory costs more than everything else about a token. The lexicon remembers the number of each token's term. A
token never seen before is put there as pending; Python works out its stem once, after the batch.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64

from tidings.jit import inlined, kernel, read, write
from tidings.receive import characters as c
from tidings.receive.lexicon import (
    ARENA,
    ENTRIES,
    HEADER,
    INLINE_BYTES,
    KIND_TAG,
    KIND_WORD,
    PENDING,
    PENDING_BIT,
    SLOT,
    find,
    hash_bytes,
    packed,
    slot_of,
)
from tidings.receive.marks import BLOCK, eight_bytes, lowest_bit, odd_bits, plain_bits, prefetch, special_bits
from tidings.receive.spans import (
    INVALID,
    decode,
    entity_end,
    has_letter,
    is_plain_entity,
    link_end,
    link_length,
    run_end,
    single_end,
    word_end,
)

NOT_UTF8 = np.uint32(0xFFFFFFFE)  # marks, in the bounds, a row that is not valid UTF-8 and has no terms
HAS_ENTITY = np.uint32(0xFFFFFFFF)  # marks, in the bounds, a row that needs its HTML entities decoded first
GAP_BIT = np.uint32(0x40000000)  # in the lexicon: a gap behind this term must be kept

# Places in the state array; 2 and 3 are the lexicon's.
ROW, USED = 0, 1
_GAP, _TAGS, _LETTER_END, _COLLECTED, STATE_SIZE = 4, 5, 6, 7, 8  # of the row at hand

_MAX_TOKEN = np.uint64(256)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOWER = np.uint64(0x2020202020202020)
_STOPPED = np.uint64(1 << 62)  # places from here on say why a row ends early
_STOP_NOT_UTF8 = _STOPPED
_STOP_HAS_ENTITY = np.uint64((1 << 62) + 1)

# What is kept of a token until it is looked up: the two words it is compared by, its label, where it stands, its slot.
_TOKEN, _MOST_TOKENS = np.uint64(5), np.uint64(1024)
_NO_TOKEN = np.uint64(0)  # the label of a gap

# The marks of a block of 64 bytes; in the scratch space they stand behind the tokens.
_MARKS = np.uint64(3)
_EVENTS, _OUTSIDE, _ODD = (_TOKEN * _MOST_TOKENS + np.uint64(kind) for kind in range(3))


def scratch_size(longest_row: int) -> int:
    """How many 64-bit words the tokens and the marks of a row take."""
    return int(_TOKEN * _MOST_TOKENS + _MARKS) + int(_MARKS) * (longest_row // BLOCK + 1)


@inlined
def _mark(data, start, size, marks):  # type: ignore[no-untyped-def]
    """For every block of a row: where anything is, where no word is (and behind the end), where to look closer."""
    for block in range((size + uint64(63)) >> uint64(6)):
        at = start + (block << uint64(6))
        left = size - (block << uint64(6))
        inside = _ALL if left >= 64 else (_ONE << left) - _ONE
        odd = odd_bits(data, at) & inside
        word = (plain_bits(data, at) & inside) | odd
        marks[block * _MARKS + _EVENTS] = word | (special_bits(data, at) & inside)
        marks[block * _MARKS + _OUTSIDE] = ~word
        marks[block * _MARKS + _ODD] = odd


@inlined
def _next(marks, kind, at, size):  # type: ignore[no-untyped-def]
    """The first place from `at` on that has a mark; the size of the row if there is none."""
    block = at >> uint64(6)
    bits = marks[block * _MARKS + kind] >> (at & uint64(63))
    if bits != 0:
        return min(at + lowest_bit(bits), size)
    for later in range(block + _ONE, (size + uint64(63)) >> uint64(6)):
        bits = marks[later * _MARKS + kind]
        if bits != 0:
            return min((later << uint64(6)) + lowest_bit(bits), size)
    return size


@inlined
def _emit(term, terms, state):  # type: ignore[no-untyped-def]
    """Append a term; a gap (0) only behind a term that asks for it, so once in a row and never first."""
    terms[state[USED]] = term & ~GAP_BIT
    state[USED] += uint64((uint64(term) | state[_GAP]) != 0)
    state[_GAP] = uint64(term) >> uint64(30)


@inlined
def _plain_packed(data, start, end):  # type: ignore[no-untyped-def]
    """`packed` of ASCII letters and digits, without a loop over them."""
    size = end - start
    if size > INLINE_BYTES:
        return hash_bytes(data, start, end), _ZERO
    first = min(size, uint64(8))
    low = (eight_bytes(data, start) | _LOWER) & (_ALL >> (uint64(64) - first * uint64(8)))
    half = (size - first) * uint64(4)  # shifted by it twice, as a shift by 64 is none
    high = (eight_bytes(data, start + uint64(8)) | _LOWER) & (((_ONE << half) << half) - _ONE)
    return low, high


@inlined
def _collect(low, high, label, start, slots, tokens, state):  # type: ignore[no-untyped-def]
    at = state[_COLLECTED] * _TOKEN
    slot = slot_of(low, high, label, slots)
    prefetch(slots, slot * uint64(SLOT))
    tokens[at], tokens[at + _ONE], tokens[at + uint64(2)] = low, high, label
    tokens[at + uint64(3)], tokens[at + uint64(4)] = start, slot
    state[_COLLECTED] += _ONE


@inlined
def _label(start, end, kind):  # type: ignore[no-untyped-def]
    return ((end - start) << uint64(8)) | uint64(kind)


@inlined
def _collect_decoded(data, start, end, kind, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Collect a token that may hold more than ASCII; one that is too long leaves a gap."""
    if end - start <= _MAX_TOKEN:
        low, high = packed(data, start, end)
        _collect(low, high, _label(start, end, kind), start, slots, tokens, state)
    else:
        _collect(_ZERO, _ZERO, _NO_TOKEN, start, slots, tokens, state)


@inlined
def _plain_word(data, start, stop, end, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Take an ASCII word up to `stop`, unless it is the start of a link; the place to go on from."""
    if data[stop] == 58 or data[stop] == 46:  # a colon or a dot: the row's last word has its end or a zero behind it
        link = link_length(data, start, stop, end)
        if link != 0:
            if stop - link > start:
                _collect_decoded(data, start, stop - link, KIND_WORD, slots, tokens, state)
            return link_end(data, stop, end)
    if stop - start <= _MAX_TOKEN:
        low, high = _plain_packed(data, start, stop)
        _collect(low, high, _label(start, stop, KIND_WORD), start, slots, tokens, state)
    else:
        _collect(_ZERO, _ZERO, _NO_TOKEN, start, slots, tokens, state)
    state[_LETTER_END] = stop
    return stop


@inlined
def _decoded_word(data, start, stop, end, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Take a word up to `stop`, unless it is the start of a link; the place to go on from."""
    link = link_length(data, start, stop, end)
    if stop - link > start:
        _collect_decoded(data, start, stop - link, KIND_WORD, slots, tokens, state)
    if link != 0:
        return link_end(data, stop, end)
    state[_LETTER_END] = stop
    return stop


@inlined
def _tag(data, start, end, classes, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Take the tag behind a hash sign. Its words count as well, so the place to go on from is the tag's start."""
    stop = run_end(data, start, end, classes, True)
    if stop - start <= _MAX_TOKEN and has_letter(data, start, stop):
        _collect_decoded(data, start, stop, KIND_TAG, slots, tokens, state)


@inlined
def _special(data, at, end, classes, slots, tokens, state):  # type: ignore[no-untyped-def]
    """A hash, an at sign, an ampersand or the end of a field; the place to go on from."""
    byte = data[at]
    after = at + _ONE
    in_word = state[_LETTER_END] == at  # then a hash or an at sign starts nothing
    if byte == 35:
        if not in_word:
            _tag(data, after, end, classes, slots, tokens, state)
    elif byte == 64:
        if not in_word:
            return run_end(data, after, end, classes, False)
    elif byte == 38:
        stop = entity_end(data, at, end)
        if stop > at and not is_plain_entity(data, at, stop):
            return _STOP_HAS_ENTITY
        return max(stop, after)
    else:
        _collect(_ZERO, _ZERO, _NO_TOKEN, at, slots, tokens, state)
    return after


@inlined
def _odd_run(data, at, stop, end, classes, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Take a run of bytes that holds more than ASCII, character by character; the place to go on from.

    That may be within the run, when no more tokens can be collected.
    """
    while at < stop and state[_COLLECTED] < _MOST_TOKENS - uint64(2):
        code, size = decode(data, at, end)
        kind = classes[code]
        if kind == c.WORD:
            at = _decoded_word(data, at, word_end(data, at + size, end, classes), end, slots, tokens, state)
        elif kind == c.SINGLE:
            last = single_end(data, at + size, end, classes)
            _collect_decoded(data, at, last, KIND_WORD, slots, tokens, state)
            state[_LETTER_END] = at = last
        elif code == INVALID and size == 1:  # invalid UTF-8: nothing of this post counts
            return _STOP_NOT_UTF8
        else:
            in_word = state[_LETTER_END] == at
            at += size
            if kind == c.HASH and not in_word:
                _tag(data, at, end, classes, slots, tokens, state)
            elif kind == c.AT and not in_word:
                at = run_end(data, at, end, classes, False)
    return at


@inlined
def _look_up(data, slots, arena, terms, tokens, state):  # type: ignore[no-untyped-def]
    """Append the terms of the collected tokens; tags go to terms[TAGS], downwards, until the words are through."""
    for number in range(state[_COLLECTED]):
        at = number * _TOKEN
        label, start = tokens[at + uint64(2)], tokens[at + uint64(3)]
        term = uint32(0)
        if label != _NO_TOKEN:
            low, high, slot = tokens[at], tokens[at + _ONE], tokens[at + uint64(4)]
            term = find(data, start, low, high, label, slot, slots, arena, state)
        if label & uint64(0xFF) == uint64(KIND_TAG):
            state[_TAGS] -= _ONE
            terms[state[_TAGS]] = term
        else:
            _emit(term, terms, state)
    state[_COLLECTED] = _ZERO


@inlined
def _row(data, start, end, classes, slots, arena, terms, state, scratch):  # type: ignore[no-untyped-def]
    """Tokenise one row from terms[USED] on: words in order, then a gap and the tags. Returns why it ended early."""
    size = end - start
    top = state[USED] + size + _ONE
    state[_TAGS], state[_GAP], state[_LETTER_END], state[_COLLECTED] = top, _ZERO, _ALL, _ZERO
    _mark(data, start, size, scratch)
    next_odd = start + _next(scratch, _ODD, _ZERO, size)
    at = start + _next(scratch, _EVENTS, _ZERO, size)
    while at < end:
        stop = start + _next(scratch, _OUTSIDE, at - start, size)
        if next_odd < at:
            next_odd = start + _next(scratch, _ODD, at - start, size)
        if stop == at:
            at = _special(data, at, end, classes, slots, scratch, state)
        elif next_odd >= stop:
            at = _plain_word(data, at, stop, end, slots, scratch, state)
        else:
            at = _odd_run(data, at, stop, end, classes, slots, scratch, state)
        if at >= _STOPPED:
            return at
        if state[_COLLECTED] >= _MOST_TOKENS - uint64(2):
            _look_up(data, slots, arena, terms, scratch, state)
        if at < end:
            at = start + _next(scratch, _EVENTS, at - start, size)
    _look_up(data, slots, arena, terms, scratch, state)
    _take_tags(top, terms, state)
    return _ZERO


@inlined
def _take_tags(top, terms, state):  # type: ignore[no-untyped-def]
    """Move the tags behind the words, in the order they were met, with a gap before them."""
    if state[_TAGS] < top:
        _emit(uint32(0), terms, state)
    for place in range(top - state[_TAGS]):
        state[_GAP] = _ZERO
        _emit(terms[top - _ONE - place], terms, state)


@kernel(
    types.boolean,
    read(uint8),
    read(types.int64),
    read(uint8),
    write(uint64),
    write(uint8),
    write(uint32),
    write(uint32, 2),
    write(uint64),
    write(uint64),
)
def tokenise(data, offsets, classes, slots, arena, terms, bounds, state, scratch):  # type: ignore[no-untyped-def]
    """Tokenise rows from state[ROW] on; False when the lexicon must grow before the next row can be taken.

    A block of bytes behind the last row must be readable. `scratch` is as long as `scratch_size` says.
    """
    rows = uint64(bounds.shape[0])
    row = uint64(state[ROW])
    while row < rows:
        start, end = uint64(offsets[row]), uint64(offsets[row + _ONE])
        size = end - start
        full = (state[ENTRIES] + size) * uint64(2) > uint64(slots.size // SLOT)
        if full or state[ARENA] + size * uint64(HEADER + 2) > uint64(arena.size):
            state[ROW] = row
            return False
        first = state[USED]
        stopped = _row(data, start, end, classes, slots, arena, terms, state, scratch)
        bounds[row, _ZERO], bounds[row, _ONE] = uint32(first), uint32(state[USED])
        if stopped != 0:
            mark = HAS_ENTITY if stopped == _STOP_HAS_ENTITY else NOT_UTF8
            bounds[row, _ZERO], bounds[row, _ONE] = mark, mark
        row += _ONE
    state[ROW] = row
    return True


@kernel(types.void, write(uint32), write(uint32, 2), read(uint64), uint64, read(uint8))
def settle(terms, bounds, slots, keep_gaps, gaps_after):  # type: ignore[no-untyped-def]
    """Replace pending slots by the term numbers worked out meanwhile; rows shrink in place.

    With `keep_gaps` a gap stays behind the terms flagged in `gaps_after`, behind all if that is empty.
    """
    for row in range(uint64(bounds.shape[0])):
        if bounds[row, _ZERO] >= NOT_UTF8:
            continue
        base = uint64(bounds[row, _ZERO])
        used = base
        for at in range(base, uint64(bounds[row, _ONE])):
            term = terms[at]
            if term & PENDING_BIT:
                slot = uint64(term & ~PENDING_BIT)
                term = uint32(slots[slot * uint64(SLOT) + uint64(3)] & PENDING) & ~GAP_BIT
            if term == 0:
                last = uint64(terms[used - _ONE]) if used > base else _ZERO
                if last == 0 or keep_gaps == 0 or (gaps_after.size > 0 and gaps_after[last] == 0):
                    continue
            terms[used] = term
            used += _ONE
        bounds[row, _ONE] = uint32(used)
