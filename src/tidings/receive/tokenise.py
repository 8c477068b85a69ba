"""The compiled cleaner: UTF-8 bytes of a whole Arrow column to term numbers, by the rules of `clean.py`.

A raw token (lower-cased in ASCII) is looked up in the *lexicon*, an open-addressing table that remembers the number of
its term. A token never seen before is put there as pending; Python works out its stem once, after the batch.

The lexicon: a slot is four 64-bit words: the first 16 bytes of the token in two of them, so that nearly every token is
compared without looking elsewhere; kind and length (0: a free slot); ``arena position << 32 | term number``. Of longer
tokens the first word is a hash instead. `arena` holds, entry after entry, ``slot (4 bytes), kind, length - 1, bytes``.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write
from tidings.receive import characters as c

PENDING = np.uint64(0xFFFFFFFF)  # the term number of a token whose stem is not worked out yet
PENDING_BIT = np.uint32(0x80000000)  # marks, in the output, a slot number instead of a term number
HAS_ENTITY = np.uint32(0xFFFFFFFF)  # marks, in the bounds, a row that needs its HTML entities decoded first
KIND_WORD = np.uint8(0)
KIND_TAG = np.uint8(1)
HEADER = 6  # bytes before the text of an arena entry
SLOT = 4  # words a slot
FOLD = np.uint64(
    0x110000
)  # behind the classes: for every byte its lower case if it is an ASCII letter or digit, else 0

# How a row ends: tokenised, empty because it is not valid UTF-8, or to be decoded first.
ROW_DONE, ROW_EMPTY, ROW_HAS_ENTITY = 0, 1, 2

# Places in the state array.
ROW, USED, ENTRIES, ARENA, KEEP_GAPS, STATE_SIZE = 0, 1, 2, 3, 4, 5

_MAX_TOKEN = np.uint64(256)
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_INLINE = np.uint64(16)  # bytes of a token that fit into its slot
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
def _lower(byte):  # type: ignore[no-untyped-def]
    return byte | uint8(0x20) if byte >= uint8(65) and byte <= uint8(90) else byte


@inlined
def _hash(data, start, end):  # type: ignore[no-untyped-def]
    value = _BASIS
    for at in range(start, end):
        value = (value ^ uint64(_lower(data[at]))) * _PRIME
    return value


@inlined
def _packed(data, start, end):  # type: ignore[no-untyped-def]
    """The two words a token is compared by: its bytes if they fit, else its hash."""
    if end - start > _INLINE:
        return _hash(data, start, end), _ZERO
    low, high = _ZERO, _ZERO
    for offset in range(end - start):
        byte = uint64(_lower(data[start + offset]))
        if offset < 8:
            low |= byte << (offset * uint64(8))
        else:
            high |= byte << ((offset - uint64(8)) * uint64(8))
    return low, high


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
    if at - start > _INLINE:
        return at, _hash(data, start, at), _ZERO
    return at, low, high


@inlined
def _slot_of(low, high, label, slots):  # type: ignore[no-untyped-def]
    """Where the search for a token starts."""
    value = (low ^ (high * _PRIME) ^ label) * _MIX
    value = (value ^ (value >> uint64(32))) * _MIX
    return (value >> uint64(29)) & uint64(slots.size // SLOT - 1)


@inlined
def _same_bytes(data, start, length, arena, at):  # type: ignore[no-untyped-def]
    for offset in range(length):
        if arena[at + uint64(HEADER) + offset] != _lower(data[start + offset]):
            return False
    return True


@inlined
def _find(data, start, end, kind, low, high, slots, arena, state):  # type: ignore[no-untyped-def]
    """The term number of a raw token, or its slot with the pending bit; a token never seen is put in."""
    length = end - start
    label = (length << uint64(8)) | uint64(kind)
    mask = uint64(slots.size // SLOT - 1)
    slot = _slot_of(low, high, label, slots)
    while True:
        at = slot * uint64(SLOT)
        held = slots[at + uint64(2)]
        if held == 0:
            _put(data, start, length, kind, slot, slots, arena, state)
            slots[at], slots[at + _ONE], slots[at + uint64(2)] = low, high, label
            return PENDING_BIT | uint32(slot)
        if slots[at] == low and slots[at + _ONE] == high and held == label:
            value = slots[at + uint64(3)]
            if length <= _INLINE or _same_bytes(data, start, length, arena, value >> uint64(32)):
                term = value & PENDING
                return PENDING_BIT | uint32(slot) if term == PENDING else uint32(term)
        slot = (slot + _ONE) & mask


@inlined
def _put(data, start, length, kind, slot, slots, arena, state):  # type: ignore[no-untyped-def]
    at = uint64(state[ARENA])
    slots[slot * uint64(SLOT) + uint64(3)] = (at << uint64(32)) | PENDING
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
                return ROW_EMPTY
            at += size
        elif kind == c.WORD:
            # an ASCII letter starts nearly every word; others make the run empty and take the second way
            word_end, low, high = _ascii_word(data, at, end, classes)
            if word_end < end and (data[word_end] >= 0x80 or classes[data[word_end]] == c.APOSTROPHE):
                word_end = _word_end(data, at + size, end, classes)
                low, high = _packed(data, at, word_end)
            link = _link_length(data, at, word_end, end)
            stop = word_end - link
            if stop > at:
                term = uint32(0)
                if stop - at <= _MAX_TOKEN:
                    if link != 0:
                        low, high = _packed(data, at, stop)
                    term = _find(data, at, stop, KIND_WORD, low, high, slots, arena, state)
                used = _emit(term, terms, base, used, keep_gaps)
            in_word = link == 0
            at = _link_end(data, word_end, end) if link != 0 else word_end
        elif kind == c.SINGLE:
            stop = _single_end(data, at + size, end, classes)
            term = uint32(0)
            if stop - at <= _MAX_TOKEN:
                low, high = _packed(data, at, stop)
                term = _find(data, at, stop, KIND_WORD, low, high, slots, arena, state)
            used = _emit(term, terms, base, used, keep_gaps)
            in_word = True
            at = stop
        elif kind == c.HASH:
            start = at + size
            stop = start if was_in_word else _run_end(data, start, end, classes, True)
            if stop - start <= _MAX_TOKEN and _has_letter(data, start, stop):
                tags -= _ONE
                low, high = _packed(data, start, stop)
                terms[tags] = _find(data, start, stop, KIND_TAG, low, high, slots, arena, state)
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
        full = (uint64(state[ENTRIES]) + size) * uint64(2 * SLOT) > uint64(slots.size)
        if full or uint64(state[ARENA]) + size * uint64(HEADER + 2) > uint64(arena.size):
            state[ROW] = row
            return False
        first = state[USED]
        outcome = _row(data, start, end, classes, slots, arena, terms, state)
        bounds[row, _ZERO], bounds[row, _ONE] = uint32(first), uint32(state[USED])
        if outcome == ROW_HAS_ENTITY:
            bounds[row, _ZERO], bounds[row, _ONE] = HAS_ENTITY, HAS_ENTITY
        row += _ONE
    state[ROW] = row
    return True


@kernel(types.void, read(uint64), write(uint64), write(uint8), uint64)
def rehash(old_slots, slots, arena, used):  # type: ignore[no-untyped-def]
    """Move every entry of the arena, with its term number, into an empty table of another size."""
    mask = uint64(slots.size // SLOT - 1)
    at = _ZERO
    while at < used:
        old = _ZERO
        for byte in range(uint64(4)):
            old |= uint64(arena[at + byte]) << (byte * uint64(8))
        old *= uint64(SLOT)
        slot = _slot_of(old_slots[old], old_slots[old + _ONE], old_slots[old + uint64(2)], slots)
        while slots[slot * uint64(SLOT) + uint64(2)] != 0:
            slot = (slot + _ONE) & mask
        for word in range(uint64(SLOT)):
            slots[slot * uint64(SLOT) + word] = old_slots[old + word]
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
                term = uint32(slots[slot * uint64(SLOT) + uint64(3)] & PENDING)
            used = _emit(term, terms, base, used, keep_gaps != 0)
        bounds[row, _ONE] = uint32(used)
