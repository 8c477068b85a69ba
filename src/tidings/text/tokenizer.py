"""The compiled tokenizer: UTF-8 bytes of an Arrow column to term ids, by the rules of `reference_analyzer.py`.

Byte masks (`byte_masks.py`) locate the words. Nearly all are ASCII letters and digits between ASCII separators and need
no decoding; only runs with other bytes are decoded character by character. The raw tokens of a row (ASCII lower case)
are collected first and looked up in the token table afterwards, when prefetching has loaded the slots: waiting for
memory would cost more than everything else. The table holds the id of each token's term. A new token is added as
pending; Python derives its term once, after the batch.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64

from tidings.jit import inline, kernel, read, write
from tidings.text import char_classes as c
from tidings.text.byte_masks import BLOCK_BYTES, eight_bytes, lowest_bit, odd_bits, plain_bits, prefetch, special_bits
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
    find_or_add,
    first_slot,
    hash_bytes,
    pack_token,
)

NOT_UTF8 = np.uint32(0xFFFFFFFE)  # in the bounds: the row is not valid UTF-8 and has no terms
HAS_ENTITY = np.uint32(0xFFFFFFFF)  # in the bounds: HTML entities of the row must be decoded first
GAP_BIT = np.uint32(0x40000000)  # in the token table: a gap after this term must be kept

# Offsets in the state array; 2 and 3 belong to the token table.
ROW, USED = 0, 1
_GAP, _TAGS, _LETTER_END, _COLLECTED, _SPECIAL, _ODD, STATE_SIZE = 4, 5, 6, 7, 8, 9, 10  # of the current row

_MAX_TOKEN = np.uint64(256)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOWER = np.uint64(0x2020202020202020)
_STOPPED = np.uint64(1 << 62)  # offsets from here on are reasons why a row ended early
_STOP_NOT_UTF8 = _STOPPED
_STOP_HAS_ENTITY = np.uint64((1 << 62) + 1)

# A collected token: the two words it is compared by, its label, its offset, its slot.
_TOKEN, _MAX_COLLECTED = np.uint64(5), np.uint64(1024)
_NO_TOKEN = np.uint64(0)  # the label of a gap

# The scratch space: the collected tokens; then four lists of offsets, each large enough for a whole row: starts and
# ends of runs of word bytes, special bytes, and starts of bytes that must be decoded.
_STARTS, _ENDS, _SPECIALS, _ODDS, _LISTS = (np.uint64(number) for number in range(5))


def scratch_size(longest_row: int) -> int:
    return int(_TOKEN * _MAX_COLLECTED) + int(_LISTS) * (longest_row + 2)


@inline
def _list(scratch, number):  # type: ignore[no-untyped-def]
    """Return where a list of offsets starts."""
    tokens = _TOKEN * _MAX_COLLECTED
    return tokens + number * ((uint64(scratch.size) - tokens) >> uint64(2))


@inline
def _write_offsets(bits, base, scratch, at):  # type: ignore[no-untyped-def]
    """Write the offset of every set bit; return where the next one goes."""
    while bits != 0:
        scratch[at] = base + lowest_bit(bits)
        bits &= bits - _ONE
        at += _ONE
    return at


@inline
def _find_runs(data, start, end, scratch):  # type: ignore[no-untyped-def]
    """Fill the lists of offsets for a row; return the number of runs of word bytes."""
    starts, ends = _list(scratch, _STARTS), _list(scratch, _ENDS)
    specials, odds = _list(scratch, _SPECIALS), _list(scratch, _ODDS)
    was_word, was_odd = _ZERO, _ZERO
    for at in range(start, end, uint64(BLOCK_BYTES)):
        inside = _ALL if end - at >= BLOCK_BYTES else (_ONE << (end - at)) - _ONE
        odd = odd_bits(data, at) & inside
        word = (plain_bits(data, at) & inside) | odd
        after_word = (word << _ONE) | was_word
        starts = _write_offsets(word & ~after_word, at, scratch, starts)
        ends = _write_offsets(~word & after_word, at, scratch, ends)
        specials = _write_offsets(special_bits(data, at) & inside, at, scratch, specials)
        odds = _write_offsets(odd & ~((odd << _ONE) | was_odd), at, scratch, odds)
        was_word, was_odd = word >> uint64(63), odd >> uint64(63)
    scratch[ends] = end  # of a run that fills the last block
    scratch[specials], scratch[odds] = _ALL, _ALL
    return starts - _list(scratch, _STARTS)


@inline
def _emit(term, terms, state):  # type: ignore[no-untyped-def]
    """Append a term; append a gap (0) only after a term that keeps gaps, so never first and never twice."""
    terms[state[USED]] = term & ~GAP_BIT
    state[USED] += uint64((uint64(term) | state[_GAP]) != 0)
    state[_GAP] = uint64(term) >> uint64(30)


@inline
def _pack_plain(data, start, end):  # type: ignore[no-untyped-def]
    """Return `pack_token` of ASCII letters and digits, without a loop."""
    size = end - start
    if size > INLINE_BYTES:
        return hash_bytes(data, start, end), _ZERO
    first = min(size, uint64(8))
    low = (eight_bytes(data, start) | _LOWER) & (_ALL >> (uint64(64) - first * uint64(8)))
    half = (size - first) * uint64(4)  # two shifts, because a shift by 64 has no effect
    high = (eight_bytes(data, start + uint64(8)) | _LOWER) & (((_ONE << half) << half) - _ONE)
    return low, high


@inline
def _collect(low, high, label, start, slots, tokens, state):  # type: ignore[no-untyped-def]
    at = state[_COLLECTED] * _TOKEN
    slot = first_slot(low, high, label, slots)
    prefetch(slots, slot * uint64(SLOT))
    tokens[at], tokens[at + _ONE], tokens[at + uint64(2)] = low, high, label
    tokens[at + uint64(3)], tokens[at + uint64(4)] = start, slot
    state[_COLLECTED] += _ONE


@inline
def _label(start, end, kind):  # type: ignore[no-untyped-def]
    return ((end - start) << uint64(8)) | uint64(kind)


@inline
def _collect_decoded(data, start, end, kind, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Collect a token that may contain non-ASCII bytes; a token that is too long becomes a gap."""
    if end - start <= _MAX_TOKEN:
        low, high = pack_token(data, start, end)
        _collect(low, high, _label(start, end, kind), start, slots, tokens, state)
    else:
        _collect(_ZERO, _ZERO, _NO_TOKEN, start, slots, tokens, state)


@inline
def _plain_word(data, start, stop, end, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Collect an ASCII word up to `stop`, unless a link starts in it; return where to continue."""
    if data[stop] == 58 or data[stop] == 46:  # colon or dot; padding follows the last row
        link = link_length(data, start, stop, end)
        if link != 0:
            if stop - link > start:
                _collect_decoded(data, start, stop - link, KIND_WORD, slots, tokens, state)
            return link_end(data, stop, end)
    if stop - start <= _MAX_TOKEN:
        low, high = _pack_plain(data, start, stop)
        _collect(low, high, _label(start, stop, KIND_WORD), start, slots, tokens, state)
    else:
        _collect(_ZERO, _ZERO, _NO_TOKEN, start, slots, tokens, state)
    state[_LETTER_END] = stop
    return stop


@inline
def _decoded_word(data, start, stop, end, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Collect a word up to `stop`, unless a link starts in it; return where to continue."""
    link = link_length(data, start, stop, end)
    if stop - link > start:
        _collect_decoded(data, start, stop - link, KIND_WORD, slots, tokens, state)
    if link != 0:
        return link_end(data, stop, end)
    state[_LETTER_END] = stop
    return stop


@inline
def _tag(data, start, end, classes, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Collect the tag that starts at `start`, after its hash. The caller continues at `start`: its words count too."""
    stop = run_end(data, start, end, classes, True)
    if stop - start <= _MAX_TOKEN and has_letter(data, start, stop):
        _collect_decoded(data, start, stop, KIND_TAG, slots, tokens, state)


@inline
def _special(data, at, end, classes, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Process a hash, an at sign, an ampersand or the end of a field; return where to continue."""
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


@inline
def _odd_run(data, at, stop, end, classes, slots, tokens, state):  # type: ignore[no-untyped-def]
    """Process a run with non-ASCII bytes character by character; return where to continue.

    This may be inside the run, when the list of tokens is full.
    """
    while at < stop and state[_COLLECTED] < _MAX_COLLECTED - uint64(2):
        code, size = decode(data, at, end)
        kind = classes[code]
        if kind == c.WORD:
            at = _decoded_word(data, at, word_end(data, at + size, end, classes), end, slots, tokens, state)
        elif kind == c.SINGLE:
            last = single_end(data, at + size, end, classes)
            _collect_decoded(data, at, last, KIND_WORD, slots, tokens, state)
            state[_LETTER_END] = at = last
        elif code == INVALID and size == 1:  # invalid UTF-8: the post has no terms
            return _STOP_NOT_UTF8
        else:
            in_word = state[_LETTER_END] == at
            at += size
            if kind == c.HASH and not in_word:
                _tag(data, at, end, classes, slots, tokens, state)
            elif kind == c.AT and not in_word:
                at = run_end(data, at, end, classes, False)
    return at


@inline
def _look_up(data, slots, arena, terms, tokens, state):  # type: ignore[no-untyped-def]
    """Append the terms of the collected tokens; tags are stored from terms[TAGS] downwards until the row ends."""
    for number in range(state[_COLLECTED]):
        at = number * _TOKEN
        label, start = tokens[at + uint64(2)], tokens[at + uint64(3)]
        term = uint32(0)
        if label != _NO_TOKEN:
            low, high, slot = tokens[at], tokens[at + _ONE], tokens[at + uint64(4)]
            term = find_or_add(data, start, low, high, label, slot, slots, arena, state)
        if label & uint64(0xFF) == uint64(KIND_TAG):
            state[_TAGS] -= _ONE
            terms[state[_TAGS]] = term
        else:
            _emit(term, terms, state)
    state[_COLLECTED] = _ZERO


@inline
def _specials(data, at, until, end, classes, slots, scratch, state):  # type: ignore[no-untyped-def]
    """Process the special bytes before `until` that no token contains; return where to continue."""
    while at < _STOPPED and scratch[state[_SPECIAL]] < until:
        offset = scratch[state[_SPECIAL]]
        state[_SPECIAL] += _ONE
        if offset >= at:
            at = _special(data, offset, end, classes, slots, scratch, state)
    return at


@inline
def _has_odd(data, at, stop, scratch, state):  # type: ignore[no-untyped-def]
    """Whether the rest of a run must be decoded."""
    while scratch[state[_ODD]] < at:
        state[_ODD] += _ONE
    return scratch[state[_ODD]] < stop or data[at] >= 0x80 or data[at] == 39


@inline
def _tokenize_row(data, start, end, classes, slots, arena, terms, state, scratch):  # type: ignore[no-untyped-def]
    """Tokenize one row into terms[USED:]: words in order, a gap, tags. Return the reason if it ended early, else 0."""
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
            if state[_COLLECTED] >= _MAX_COLLECTED - uint64(2):
                _look_up(data, slots, arena, terms, scratch, state)
        if at >= _STOPPED:
            return at
    at = _specials(data, at, end, end, classes, slots, scratch, state)
    if at >= _STOPPED:
        return at
    _look_up(data, slots, arena, terms, scratch, state)
    _append_tags(top, terms, state)
    return _ZERO


@inline
def _append_tags(top, terms, state):  # type: ignore[no-untyped-def]
    """Move the tags after the words, in order of occurrence, with a gap before them."""
    if state[_TAGS] < top:
        _emit(uint32(0), terms, state)
    for number in range(top - state[_TAGS]):
        state[_GAP] = _ZERO
        _emit(terms[top - _ONE - number], terms, state)


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
def tokenize(data, offsets, classes, slots, arena, terms, bounds, state, scratch):  # type: ignore[no-untyped-def]
    """Tokenize rows from state[ROW] on; return False if the token table must grow before the next row.

    A block of bytes after the last row must be readable. `scratch` has `scratch_size` elements.
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
        stopped = _tokenize_row(data, start, end, classes, slots, arena, terms, state, scratch)
        bounds[row, _ZERO], bounds[row, _ONE] = uint32(first), uint32(state[USED])
        if stopped != 0:
            mark = HAS_ENTITY if stopped == _STOP_HAS_ENTITY else NOT_UTF8
            bounds[row, _ZERO], bounds[row, _ONE] = mark, mark
        row += _ONE
    state[ROW] = row
    return True


@kernel(types.void, write(uint32), write(uint32, 2), read(uint64), uint64, read(uint8))
def resolve_pending(terms, bounds, slots, keep_gaps, gaps_after):  # type: ignore[no-untyped-def]
    """Replace pending slots by their term ids; rows shrink in place.

    With `keep_gaps`, a gap stays after the terms flagged in `gaps_after`, or after all terms if that is empty.
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
