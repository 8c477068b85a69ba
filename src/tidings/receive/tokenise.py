"""The compiled cleaner: UTF-8 bytes of a whole Arrow column to term numbers, by the rules of `clean.py`.

A raw token (lower-cased in ASCII) is looked up in the *lexicon*, an open-addressing table that remembers the number of
its term. A token never seen before is put there as pending; Python works out its stem once, after the batch.

The lexicon: `slots` holds two words a slot, the hash (0: free) and ``arena position << 32 | term number``.
`arena` holds, entry after entry, ``slot (4 bytes), kind, length - 1, the bytes``.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64

from tidings.jit import inlined, kernel, read, write
from tidings.receive import characters as c

PENDING = np.uint64(0xFFFFFFFF)  # the term number of a token whose stem is not worked out yet
PENDING_BIT = np.uint32(0x80000000)  # marks, in the output, a slot number instead of a term number
HAS_ENTITY = np.uint32(0xFFFFFFFF)  # marks, in the bounds, a row that needs its HTML entities decoded first
KIND_WORD = np.uint8(0)
KIND_TAG = np.uint8(1)
HEADER = 6  # bytes before the text of an arena entry

# Places in the state array.
ROW, USED, ENTRIES, ARENA, KEEP_GAPS, STATE_SIZE = 0, 1, 2, 3, 4, 5

_MAX_TOKEN = np.uint64(256)
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_ONE = np.uint64(1)
_INVALID = np.uint64(0xFFFD)


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
def _lower(byte):  # type: ignore[no-untyped-def]
    return byte | uint8(0x20) if byte >= uint8(65) and byte <= uint8(90) else byte


@inlined
def _hash(data, start, end, kind):  # type: ignore[no-untyped-def]
    value = _BASIS ^ uint64(kind)
    for at in range(start, end):
        value = (value ^ uint64(_lower(data[at]))) * _PRIME
    return value


@inlined
def _ascii_word(data, at, end, classes):  # type: ignore[no-untyped-def]
    """The end of a run of ASCII letters and digits, and its hash: nine words of ten need no more than this."""
    value = _BASIS ^ uint64(KIND_WORD)
    while at < end:
        byte = data[at]
        if byte >= uint8(0x80) or classes[byte] != c.WORD:
            break
        value = (value ^ uint64(_lower(byte))) * _PRIME
        at += _ONE
    return at, value


@inlined
def _find(data, start, end, kind, value, slots, arena, state):  # type: ignore[no-untyped-def]
    """The term number of a raw token, or its slot with the pending bit; a token never seen is put in."""
    value = value ^ (value >> uint64(32))
    if value == 0:
        value = _ONE
    mask = uint64(slots.size // 2 - 1)
    slot = value & mask
    length = end - start
    while slots[slot * uint64(2)] != 0:
        if slots[slot * uint64(2)] == value:
            packed = slots[slot * uint64(2) + _ONE]
            at = packed >> uint64(32)
            if arena[at + uint64(4)] == kind and uint64(arena[at + uint64(5)]) + _ONE == length:
                same = True
                for offset in range(length):
                    if arena[at + uint64(HEADER) + offset] != _lower(data[start + offset]):
                        same = False
                        break
                if same:
                    term = packed & PENDING
                    return PENDING_BIT | uint32(slot) if term == PENDING else uint32(term)
        slot = (slot + _ONE) & mask
    _put(data, start, length, kind, value, slot, slots, arena, state)
    return PENDING_BIT | uint32(slot)


@inlined
def _put(data, start, length, kind, value, slot, slots, arena, state):  # type: ignore[no-untyped-def]
    at = uint64(state[ARENA])
    slots[slot * uint64(2)] = value
    slots[slot * uint64(2) + _ONE] = (at << uint64(32)) | PENDING
    for byte in range(uint64(4)):
        arena[at + byte] = uint8((slot >> (byte * uint64(8))) & uint64(0xFF))
    arena[at + uint64(4)] = kind
    arena[at + uint64(5)] = uint8(length - _ONE)
    for offset in range(length):
        arena[at + uint64(HEADER) + offset] = _lower(data[start + offset])
    state[ARENA] = at + uint64(HEADER) + length
    state[ENTRIES] += _ONE


@inlined
def _ends_with_scheme(data, start, end):  # type: ignore[no-untyped-def]
    """How many bytes of ``http`` or ``https`` a word ends with; 0 if neither."""
    size = uint64(5) if end - start >= 5 and _lower(data[end - _ONE]) == 115 else uint64(4)
    if end - start < size:
        return uint64(0)
    at = end - size
    http = _lower(data[at]) == 104 and _lower(data[at + _ONE]) == 116
    http = http and _lower(data[at + uint64(2)]) == 116 and _lower(data[at + uint64(3)]) == 112
    return size if http else uint64(0)


@inlined
def _link_length(data, start, at, end):  # type: ignore[no-untyped-def]
    """How many bytes of the word before `at` belong to a link that goes on at `at`; 0 if there is no link."""
    if at >= end:
        return uint64(0)
    if data[at] == 58 and at + uint64(2) < end and data[at + _ONE] == 47 and data[at + uint64(2)] == 47:
        return _ends_with_scheme(data, start, at)
    if data[at] == 46 and at - start == 3:
        if _lower(data[start]) == 119 and _lower(data[start + _ONE]) == 119 and _lower(data[start + uint64(2)]) == 119:
            return uint64(3)
    return uint64(0)


@inlined
def _link_end(data, at, end):  # type: ignore[no-untyped-def]
    while at < end:
        byte = data[at]
        if byte <= 32 or byte >= 127 or byte == 34 or byte == 60 or byte == 62:
            break
        at += _ONE
    return at


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
    """Tokenise one row from terms[USED] on: words in order, then a gap and the tags. False if it holds an entity."""
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
            at += size
        elif kind == c.WORD:
            word_end, value = _ascii_word(data, at, end, classes)
            if word_end < end and (data[word_end] >= 0x80 or classes[data[word_end]] == c.APOSTROPHE):
                word_end = _word_end(data, at + size, end, classes)
                value = _hash(data, at, word_end, KIND_WORD)
            link = _link_length(data, at, word_end, end)
            stop = word_end - link
            if stop > at:
                term = uint32(0)
                if stop - at <= _MAX_TOKEN:
                    if link != 0:
                        value = _hash(data, at, stop, KIND_WORD)
                    term = _find(data, at, stop, KIND_WORD, value, slots, arena, state)
                used = _emit(term, terms, base, used, keep_gaps)
            in_word = link == 0
            at = _link_end(data, word_end, end) if link != 0 else word_end
        elif kind == c.SINGLE:
            stop = _single_end(data, at + size, end, classes)
            term = uint32(0)
            if stop - at <= _MAX_TOKEN:
                term = _find(data, at, stop, KIND_WORD, _hash(data, at, stop, KIND_WORD), slots, arena, state)
            used = _emit(term, terms, base, used, keep_gaps)
            in_word = True
            at = stop
        elif kind == c.HASH:
            start = at + size
            stop = start if was_in_word else _run_end(data, start, end, classes, True)
            if stop - start <= _MAX_TOKEN and _has_letter(data, start, stop):
                tags -= _ONE
                value = _hash(data, start, stop, KIND_TAG)
                terms[tags] = _find(data, start, stop, KIND_TAG, value, slots, arena, state)
            at = start
        elif kind == c.AT:
            at += size
            if not was_in_word:
                at = _run_end(data, at, end, classes, False)
        elif kind == c.AMPERSAND:
            stop = _entity_end(data, at, end)
            if stop > at and not _is_plain_entity(data, at, stop):
                return False
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
    return True


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
        full = (uint64(state[ENTRIES]) + size) * uint64(4) > uint64(slots.size)
        if full or uint64(state[ARENA]) + size * uint64(HEADER + 2) > uint64(arena.size):
            state[ROW] = row
            return False
        first = state[USED]
        if _row(data, start, end, classes, slots, arena, terms, state):
            bounds[row, uint64(0)], bounds[row, _ONE] = uint32(first), uint32(state[USED])
        else:
            bounds[row, uint64(0)], bounds[row, _ONE] = HAS_ENTITY, HAS_ENTITY
        row += _ONE
    state[ROW] = row
    return True


@kernel(types.void, read(uint64), write(uint64), write(uint8), uint64)
def rehash(old_slots, slots, arena, used):  # type: ignore[no-untyped-def]
    """Move every entry of the arena, with its term number, into an empty table of another size."""
    mask = uint64(slots.size // 2 - 1)
    at = uint64(0)
    while at < used:
        old = uint64(0)
        for byte in range(uint64(4)):
            old |= uint64(arena[at + byte]) << (byte * uint64(8))
        value = old_slots[old * uint64(2)]
        slot = value & mask
        while slots[slot * uint64(2)] != 0:
            slot = (slot + _ONE) & mask
        slots[slot * uint64(2)] = value
        slots[slot * uint64(2) + _ONE] = old_slots[old * uint64(2) + _ONE]
        for byte in range(uint64(4)):
            arena[at + byte] = uint8((slot >> (byte * uint64(8))) & uint64(0xFF))
        at += uint64(HEADER) + uint64(arena[at + uint64(5)]) + _ONE


@kernel(types.void, write(uint32), write(uint32, 2), read(uint64), uint64)
def settle(terms, bounds, slots, keep_gaps):  # type: ignore[no-untyped-def]
    """Replace pending slots by the term numbers worked out meanwhile; rows shrink in place."""
    for row in range(uint64(bounds.shape[0])):
        if bounds[row, uint64(0)] == HAS_ENTITY:
            continue
        base = uint64(bounds[row, uint64(0)])
        used = base
        for at in range(base, uint64(bounds[row, _ONE])):
            term = terms[at]
            if term & PENDING_BIT:
                slot = uint64(term & ~PENDING_BIT)
                term = uint32(slots[slot * uint64(2) + _ONE] & PENDING)
            used = _emit(term, terms, base, used, keep_gaps != 0)
        bounds[row, _ONE] = uint32(used)
