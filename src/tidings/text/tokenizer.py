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
from tidings.text import char_classes as c
from tidings.text.byte_masks import BLOCK, eight_bytes, lowest_bit, odd_bits, plain_bits, prefetch, special_bits
from tidings.text.scanner import (
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
from tidings.text.token_table import (
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

NOT_UTF8 = np.uint32(0xFFFFFFFE)  # marks, in the bounds, a row that is not valid UTF-8 and has no terms
HAS_ENTITY = np.uint32(0xFFFFFFFF)  # marks, in the bounds, a row that needs its HTML entities decoded first
GAP_BIT = np.uint32(0x40000000)  # in the lexicon: a gap behind this term must be kept

# Places in the state array; 2 and 3 are the lexicon's.
ROW, USED = 0, 1
_GAP, _TAGS, _LETTER_END, _COLLECTED, _SPECIAL, _ODD, STATE_SIZE = 4, 5, 6, 7, 8, 9, 10  # of the row at hand

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

# The scratch space: the tokens; then four lists of places, each with room for a whole row: where runs of word bytes
# start and end, the special bytes, and where bytes that need a closer look start.
_STARTS, _ENDS, _SPECIALS, _ODDS, _LISTS = (np.uint64(number) for number in range(5))


def scratch_size(longest_row: int) -> int:
    return int(_TOKEN * _MOST_TOKENS) + int(_LISTS) * (longest_row + 2)


@inlined
def _list(scratch, number):  # type: ignore[no-untyped-def]
    """Where a list of places begins."""
    tokens = _TOKEN * _MOST_TOKENS
    return tokens + number * ((uint64(scratch.size) - tokens) >> uint64(2))


@inlined
def _write_places(bits, base, scratch, at):  # type: ignore[no-untyped-def]
    """Write down the place of every bit that is set; returns where the next goes."""
    while bits != 0:
        scratch[at] = base + lowest_bit(bits)
        bits &= bits - _ONE
        at += _ONE
    return at


@inlined
def _find_runs(data, start, end, scratch):  # type: ignore[no-untyped-def]
    """Fill the lists of places for a row; returns how many runs of word bytes there are."""
    starts, ends = _list(scratch, _STARTS), _list(scratch, _ENDS)
    specials, odds = _list(scratch, _SPECIALS), _list(scratch, _ODDS)
    was_word, was_odd = _ZERO, _ZERO
    for at in range(start, end, uint64(BLOCK)):
        inside = _ALL if end - at >= BLOCK else (_ONE << (end - at)) - _ONE
        odd = odd_bits(data, at) & inside
        word = (plain_bits(data, at) & inside) | odd
        after_word = (word << _ONE) | was_word
        starts = _write_places(word & ~after_word, at, scratch, starts)
        ends = _write_places(~word & after_word, at, scratch, ends)
        specials = _write_places(special_bits(data, at) & inside, at, scratch, specials)
        odds = _write_places(odd & ~((odd << _ONE) | was_odd), at, scratch, odds)
        was_word, was_odd = word >> uint64(63), odd >> uint64(63)
    scratch[ends] = end  # of a run that fills the last block
    scratch[specials], scratch[odds] = _ALL, _ALL
    return starts - _list(scratch, _STARTS)


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
def _specials(data, at, until, end, classes, slots, scratch, state):  # type: ignore[no-untyped-def]
    """Take the special bytes before `until` that are not part of anything taken already; the place to go on from."""
    while at < _STOPPED and scratch[state[_SPECIAL]] < until:
        place = scratch[state[_SPECIAL]]
        state[_SPECIAL] += _ONE
        if place >= at:
            at = _special(data, place, end, classes, slots, scratch, state)
    return at


@inlined
def _has_odd(data, at, stop, scratch, state):  # type: ignore[no-untyped-def]
    """Whether a run, or what is left of it, needs a closer look."""
    while scratch[state[_ODD]] < at:
        state[_ODD] += _ONE
    return scratch[state[_ODD]] < stop or data[at] >= 0x80 or data[at] == 39


@inlined
def _row(data, start, end, classes, slots, arena, terms, state, scratch):  # type: ignore[no-untyped-def]
    """Tokenise one row from terms[USED] on: words in order, then a gap and the tags. Returns why it ended early."""
    top = state[USED] + (end - start) + _ONE
    state[_TAGS], state[_GAP], state[_LETTER_END], state[_COLLECTED] = top, _ZERO, _ALL, _ZERO
    state[_SPECIAL], state[_ODD] = _list(scratch, _SPECIALS), _list(scratch, _ODDS)
    starts, ends = _list(scratch, _STARTS), _list(scratch, _ENDS)
    at = start
    for run in range(_find_runs(data, start, end, scratch)):
        first, last = scratch[starts + run], scratch[ends + run]
        at = max(first, _specials(data, at, first, end, classes, slots, scratch, state))
        while at < last:
            if _has_odd(data, at, last, scratch, state):
                at = _odd_run(data, at, last, end, classes, slots, scratch, state)
            else:
                at = _plain_word(data, at, last, end, slots, scratch, state)
            if state[_COLLECTED] >= _MOST_TOKENS - uint64(2):
                _look_up(data, slots, arena, terms, scratch, state)
        if at >= _STOPPED:
            return at
    at = _specials(data, at, end, end, classes, slots, scratch, state)
    if at >= _STOPPED:
        return at
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

    A block of bytes behind the last row must be readable. `scratch` has the size that
    `scratch_size` says.
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
