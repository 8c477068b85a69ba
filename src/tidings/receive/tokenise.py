"""The compiled cleaner: UTF-8 bytes of a whole Arrow column to term numbers, by the rules of `clean.py`.

A raw token (lower-cased in ASCII) is looked up in the lexicon, which remembers the number of its term. A token never
seen before is put there as pending; Python works out its stem once, after the batch.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write
from tidings.receive import characters as c
from tidings.receive.lexicon import (
    ARENA,
    ENTRIES,
    FRONT,
    HEADER,
    INLINE_BYTES,
    KIND_TAG,
    KIND_WORD,
    PENDING,
    PENDING_BIT,
    SLOT,
    find,
    hash_bytes,
    lower,
    packed,
)

NOT_UTF8 = np.uint32(0xFFFFFFFE)  # marks, in the bounds, a row that is not valid UTF-8 and has no terms
HAS_ENTITY = np.uint32(0xFFFFFFFF)  # marks, in the bounds, a row that needs its HTML entities decoded first
FOLD = np.uint64(
    0x110000
)  # behind the classes: for every byte its lower case if it is an ASCII letter or digit, else 0

# How a row ends: tokenised, refused, or to be decoded first.
ROW_DONE, ROW_NOT_UTF8, ROW_HAS_ENTITY = 0, 1, 2

# Places in the state array.
ROW, USED, KEEP_GAPS, STATE_SIZE = 0, 1, 4, 5  # 2 and 3 are the lexicon's

_MAX_TOKEN = np.uint64(256)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_INVALID = np.uint64(0xFFFD)


def tables() -> NDArray[np.uint8]:
    """The character classes and, from FOLD on, the folded ASCII letters and digits."""
    folded = [ord(chr(byte).lower()) if byte < 128 and chr(byte).isalnum() else 0 for byte in range(256)]
    return np.concatenate([c.class_table(), np.array(folded, np.uint8)])


@inlined
def _decode(data, at, end):  # type: ignore[no-untyped-def]
    """The code point at a position and its length in bytes; one byte of invalid UTF-8 is U+FFFD."""
    first = uint64(data[at])
    if first < 0x80:
        return first, uint64(1)
    if first >= 0xC2 and first < 0xE0:
        size, code = uint64(2), first & uint64(0x1F)
    elif first >= 0xE0 and first < 0xF0:
        size, code = uint64(3), first & uint64(0x0F)
    elif first >= 0xF0 and first < 0xF5:
        size, code = uint64(4), first & uint64(0x07)
    else:
        return _INVALID, uint64(1)
    if at + size > end:
        return _INVALID, uint64(1)
    for offset in range(uint64(1), size):
        following = uint64(data[at + offset])
        if following & uint64(0xC0) != uint64(0x80):
            return _INVALID, uint64(1)
        code = (code << uint64(6)) | (following & uint64(0x3F))
    too_short = (size == 3 and code < 0x800) or (size == 4 and code < 0x10000)
    if too_short or code > 0x10FFFF or (code >= 0xD800 and code < 0xE000):
        return _INVALID, uint64(1)
    return code, size


@inlined
def _ascii_word(data, at, end, tables):  # type: ignore[no-untyped-def]
    """The end of a run of ASCII letters and digits, packed as it is read: nine words of ten need no more than this."""
    start = at
    low, high, shift = _ZERO, _ZERO, _ZERO
    stop = min(end, at + uint64(8))
    while at < stop:
        byte = uint64(tables[FOLD + uint64(data[at])])
        if byte == 0:
            return at, low, high
        low |= byte << shift
        shift += uint64(8)
        at += _ONE
    shift = _ZERO
    stop = min(end, at + uint64(8))
    while at < stop:
        byte = uint64(tables[FOLD + uint64(data[at])])
        if byte == 0:
            return at, low, high
        high |= byte << shift
        shift += uint64(8)
        at += _ONE
    while at < end and tables[FOLD + uint64(data[at])] != 0:
        at += _ONE
    if at - start > INLINE_BYTES:
        return at, hash_bytes(data, start, at), _ZERO
    return at, low, high


@inlined
def _ends_with_scheme(data, start, end):  # type: ignore[no-untyped-def]
    """How many bytes of ``http`` or ``https`` a word ends with; 0 if neither."""
    size = uint64(5) if end - start >= 5 and lower(data[end - _ONE]) == 115 else uint64(4)
    if end - start < size:
        return uint64(0)
    at = end - size
    http = lower(data[at]) == 104 and lower(data[at + _ONE]) == 116
    http = http and lower(data[at + uint64(2)]) == 116 and lower(data[at + uint64(3)]) == 112
    return size if http else uint64(0)


@inlined
def _link_length(data, start, at, end):  # type: ignore[no-untyped-def]
    """How many bytes of the word before `at` belong to a link that goes on at `at`; 0 if there is no link."""
    if at >= end:
        return uint64(0)
    if data[at] == 58 and at + uint64(2) < end and data[at + _ONE] == 47 and data[at + uint64(2)] == 47:
        return _ends_with_scheme(data, start, at)
    if data[at] == 46 and at - start == 3:
        if lower(data[start]) == 119 and lower(data[start + _ONE]) == 119 and lower(data[start + uint64(2)]) == 119:
            return uint64(3)
    return uint64(0)


@inlined
def _is_alphanumeric(byte):  # type: ignore[no-untyped-def]
    lower = byte | uint8(0x20)
    return (lower >= 97 and lower <= 122) or (byte >= 48 and byte <= 57)


@inlined
def _entity_end(data, at, end):  # type: ignore[no-untyped-def]
    """Where a well-formed HTML entity that starts at an ampersand ends; `at` if there is none."""
    scan = at + _ONE
    numeric = scan < end and data[scan] == 35
    if numeric:
        scan += _ONE
    last = min(end, at + uint64(34))
    start = scan
    while scan < last and _is_alphanumeric(data[scan]):
        scan += _ONE
    if scan >= end or data[scan] != 59 or scan == start:
        return at
    return scan + _ONE


@inlined
def _is_plain_entity(data, at, end):  # type: ignore[no-untyped-def]
    """Whether the entity is ``&amp;`` ``&lt;`` or ``&gt;``: separators all, 99.9 % of the entities in tweets."""
    size = end - at
    if size == 5:
        return data[at + _ONE] == 97 and data[at + uint64(2)] == 109 and data[at + uint64(3)] == 112
    if size == 4:
        return (data[at + _ONE] == 108 or data[at + _ONE] == 103) and data[at + uint64(2)] == 116
    return False


@inlined
def _link_end(data, at, end):  # type: ignore[no-untyped-def]
    """The end of a link; an HTML entity but ``&amp;`` ends it here, to be looked at (and decoded) where it stands."""
    while at < end:
        byte = data[at]
        if byte <= 32 or byte >= 127 or byte == 34 or byte == 60 or byte == 62:
            break
        if byte == 38:
            stop = _entity_end(data, at, end)
            if stop > at and not (stop - at == 5 and _is_plain_entity(data, at, stop)):
                break
        at += _ONE
    return at


@inlined
def _run_end(data, at, end, classes, singles_too):  # type: ignore[no-untyped-def]
    """The end of a hashtag (with letters of scripts without spaces) or a name (without)."""
    while at < end:
        code, size = _decode(data, at, end)
        kind = classes[code]
        part = kind == c.WORD or kind == c.MARK or kind == c.IGNORED or kind == c.UNDERSCORE
        if not part and not (singles_too and kind == c.SINGLE):
            break
        at += size
    return at


@inlined
def _has_letter(data, at, end):  # type: ignore[no-untyped-def]
    while at < end:
        if data[at] != 95:
            return True
        at += _ONE
    return False


@inlined
def _word_end(data, at, end, classes):  # type: ignore[no-untyped-def]
    """The end of the word that starts at `at`."""
    while at < end:
        code, size = _decode(data, at, end)
        kind = classes[code]
        if kind == c.APOSTROPHE:
            if at + size >= end:
                break
            following, _ = _decode(data, at + size, end)
            if classes[following] != c.WORD:
                break
        elif kind != c.WORD and kind != c.MARK and kind != c.IGNORED:
            break
        at += size
    return at


@inlined
def _single_end(data, at, end, classes):  # type: ignore[no-untyped-def]
    while at < end:
        code, size = _decode(data, at, end)
        if classes[code] != c.MARK and classes[code] != c.IGNORED:
            break
        at += size
    return at


@inlined
def _emit(term, terms, base, used, keep_gaps):  # type: ignore[no-untyped-def]
    """Append a term; a gap (0) is kept only where phrases need it, and once in a row."""
    if term == 0 and (not keep_gaps or used == base or terms[used - _ONE] == 0):
        return used
    terms[used] = term
    return used + _ONE


@inlined
def _row(data, at, end, classes, slots, arena, terms, state):  # type: ignore[no-untyped-def]
    """Tokenise one row from terms[USED] on: words in order, then a gap and the tags."""
    base = uint64(state[USED])
    keep_gaps = state[KEEP_GAPS] != 0
    top = base + (end - at) + _ONE  # tags are put here, downwards, until the words are through
    tags = top
    used = base
    in_word = False  # whether the character before is a letter: then a hash or an at sign starts nothing
    while at < end:
        code, size = _decode(data, at, end)
        kind = classes[code]
        was_in_word = in_word
        in_word = False
        if kind == c.SEPARATOR:
            if code == _INVALID and size == 1:  # invalid UTF-8: nothing of this post counts
                return ROW_NOT_UTF8
            at += size
        elif kind == c.WORD:
            # an ASCII letter starts nearly every word; others make the run empty and take the second way
            word_end, low, high = _ascii_word(data, at, end, classes)
            if word_end < end and (data[word_end] >= 0x80 or classes[data[word_end]] == c.APOSTROPHE):
                word_end = _word_end(data, at + size, end, classes)
                low, high = packed(data, at, word_end)
            link = _link_length(data, at, word_end, end)
            stop = word_end - link
            if stop > at:
                term = uint32(0)
                if stop - at <= _MAX_TOKEN:
                    if link != 0:
                        low, high = packed(data, at, stop)
                    term = find(data, at, stop, KIND_WORD, low, high, slots, arena, state)
                used = _emit(term, terms, base, used, keep_gaps)
            in_word = link == 0
            at = _link_end(data, word_end, end) if link != 0 else word_end
        elif kind == c.SINGLE:
            stop = _single_end(data, at + size, end, classes)
            term = uint32(0)
            if stop - at <= _MAX_TOKEN:
                low, high = packed(data, at, stop)
                term = find(data, at, stop, KIND_WORD, low, high, slots, arena, state)
            used = _emit(term, terms, base, used, keep_gaps)
            in_word = True
            at = stop
        elif kind == c.HASH:
            start = at + size
            stop = start if was_in_word else _run_end(data, start, end, classes, True)
            if stop - start <= _MAX_TOKEN and _has_letter(data, start, stop):
                tags -= _ONE
                low, high = packed(data, start, stop)
                terms[tags] = find(data, start, stop, KIND_TAG, low, high, slots, arena, state)
            at = start
        elif kind == c.AT:
            at += size
            if not was_in_word:
                at = _run_end(data, at, end, classes, False)
        elif kind == c.AMPERSAND:
            stop = _entity_end(data, at, end)
            if stop > at and not _is_plain_entity(data, at, stop):
                return ROW_HAS_ENTITY
            at = max(stop, at + size)
        elif kind == c.BREAK:
            used = _emit(uint32(0), terms, base, used, keep_gaps)
            at += size
        else:
            at += size
    if tags < top:
        used = _emit(uint32(0), terms, base, used, keep_gaps)
        while top > tags:
            top -= _ONE
            used = _emit(terms[top], terms, base, used, False)
    state[USED] = used
    return ROW_DONE


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
)
def tokenise(data, offsets, classes, slots, arena, terms, bounds, state):  # type: ignore[no-untyped-def]
    """Tokenise rows from state[ROW] on; False when the lexicon must grow before the next row can be taken."""
    rows = uint64(bounds.shape[0])
    row = uint64(state[ROW])
    while row < rows:
        start, end = uint64(offsets[row]), uint64(offsets[row + _ONE])
        size = end - start
        full = (uint64(state[ENTRIES]) + size) * uint64(2) > uint64(slots.size // SLOT - FRONT)
        if full or uint64(state[ARENA]) + size * uint64(HEADER + 2) > uint64(arena.size):
            state[ROW] = row
            return False
        first = state[USED]
        outcome = _row(data, start, end, classes, slots, arena, terms, state)
        bounds[row, _ZERO], bounds[row, _ONE] = uint32(first), uint32(state[USED])
        if outcome != ROW_DONE:
            mark = HAS_ENTITY if outcome == ROW_HAS_ENTITY else NOT_UTF8
            bounds[row, _ZERO], bounds[row, _ONE] = mark, mark
        row += _ONE
    state[ROW] = row
    return True


@kernel(types.void, write(uint32), write(uint32, 2), read(uint64), uint64, read(uint8))
def settle(terms, bounds, slots, keep_gaps, gaps_after):  # type: ignore[no-untyped-def]
    """Replace pending slots by the term numbers worked out meanwhile; rows shrink in place.

    With `gaps_after` (a flag for every term), a gap stays only behind the terms that phrases hold.
    """
    for row in range(uint64(bounds.shape[0])):
        if bounds[row, _ZERO] >= NOT_UTF8:
            continue
        base = uint64(bounds[row, uint64(0)])
        used = base
        for at in range(base, uint64(bounds[row, _ONE])):
            term = terms[at]
            if term & PENDING_BIT:
                slot = uint64(term & ~PENDING_BIT)
                term = uint32(slots[(slot + uint64(FRONT)) * uint64(SLOT) + uint64(3)] & PENDING)
            if term == 0 and gaps_after.size > 0 and (used == base or gaps_after[uint64(terms[used - _ONE])] == 0):
                continue
            used = _emit(term, terms, base, used, keep_gaps != 0)
        bounds[row, _ONE] = uint32(used)
