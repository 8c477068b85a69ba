"""Find the ends of characters, words, tags, names, links and HTML entities in UTF-8 bytes."""

from __future__ import annotations

import numpy as np
from numba import uint8, uint64

from tidings.jit import inline
from tidings.text import char_classes as c
from tidings.text.token_table import lower

INVALID = np.uint64(0xFFFD)  # the code point of a byte of invalid UTF-8

_ONE = np.uint64(1)


@inline
def decode(data, at, end):  # type: ignore[no-untyped-def]
    """Return the code point at an offset and its length in bytes; a byte of invalid UTF-8 is U+FFFD."""
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
        return INVALID, uint64(1)
    if at + size > end:
        return INVALID, uint64(1)
    for offset in range(uint64(1), size):
        following = uint64(data[at + offset])
        if following & uint64(0xC0) != uint64(0x80):
            return INVALID, uint64(1)
        code = (code << uint64(6)) | (following & uint64(0x3F))
    too_short = (size == 3 and code < 0x800) or (size == 4 and code < 0x10000)
    if too_short or code > 0x10FFFF or (code >= 0xD800 and code < 0xE000):
        return INVALID, uint64(1)
    return code, size


@inline
def _ends_with_scheme(data, start, end):  # type: ignore[no-untyped-def]
    """Return the length of ``http`` or ``https`` at the end of a word; 0 if neither."""
    size = uint64(5) if end - start >= 5 and lower(data[end - _ONE]) == 115 else uint64(4)
    if end - start < size:
        return uint64(0)
    at = end - size
    http = lower(data[at]) == 104 and lower(data[at + _ONE]) == 116
    http = http and lower(data[at + uint64(2)]) == 116 and lower(data[at + uint64(3)]) == 112
    return size if http else uint64(0)


@inline
def link_length(data, start, at, end):  # type: ignore[no-untyped-def]
    """Return how many bytes of the word before `at` belong to a link that continues at `at`; 0 without a link."""
    if at >= end:
        return uint64(0)
    if data[at] == 58 and at + uint64(2) < end and data[at + _ONE] == 47 and data[at + uint64(2)] == 47:
        return _ends_with_scheme(data, start, at)
    dot = data[at] == 46 and at - start == 3
    www = (
        dot and lower(data[start]) == 119 and lower(data[start + _ONE]) == 119 and lower(data[start + uint64(2)]) == 119
    )
    return uint64(3) if www else uint64(0)


@inline
def _is_alphanumeric(byte):  # type: ignore[no-untyped-def]
    lower = byte | uint8(0x20)
    return (lower >= 97 and lower <= 122) or (byte >= 48 and byte <= 57)


@inline
def entity_end(data, at, end):  # type: ignore[no-untyped-def]
    """Return the end of a well-formed HTML entity that starts at an ampersand; `at` if it is not one."""
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


@inline
def is_plain_entity(data, at, end):  # type: ignore[no-untyped-def]
    """Whether the entity is ``&amp;`` ``&lt;`` or ``&gt;``: separators, and 99.9 % of the entities in tweets."""
    size = end - at
    if size == 5:
        return data[at + _ONE] == 97 and data[at + uint64(2)] == 109 and data[at + uint64(3)] == 112
    if size == 4:
        return (data[at + _ONE] == 108 or data[at + _ONE] == 103) and data[at + uint64(2)] == 116
    return False


@inline
def link_end(data, at, end):  # type: ignore[no-untyped-def]
    """Return the end of a link; an HTML entity other than ``&amp;`` ends it, so that the caller decodes it."""
    while at < end:
        byte = data[at]
        if byte <= 32 or byte >= 127 or byte == 34 or byte == 60 or byte == 62:
            break
        if byte == 38:
            stop = entity_end(data, at, end)
            if stop > at and not (stop - at == 5 and is_plain_entity(data, at, stop)):
                break
        at += _ONE
    return at


@inline
def run_end(data, at, end, classes, singles_too):  # type: ignore[no-untyped-def]
    """Return the end of a hashtag (including letters of scripts without spaces) or a name (without them)."""
    while at < end:
        code, size = decode(data, at, end)
        kind = classes[code]
        part = kind == c.WORD or kind == c.MARK or kind == c.IGNORED or kind == c.UNDERSCORE
        if not part and not (singles_too and kind == c.SINGLE):
            break
        at += size
    return at


@inline
def has_letter(data, at, end):  # type: ignore[no-untyped-def]
    while at < end:
        if data[at] != 95:
            return True
        at += _ONE
    return False


@inline
def word_end(data, at, end, classes):  # type: ignore[no-untyped-def]
    """Return the end of the word that starts at `at`."""
    while at < end:
        code, size = decode(data, at, end)
        kind = classes[code]
        if kind == c.APOSTROPHE:
            if at + size >= end:
                break
            following, _ = decode(data, at + size, end)
            if classes[following] != c.WORD:
                break
        elif kind != c.WORD and kind != c.MARK and kind != c.IGNORED:
            break
        at += size
    return at


@inline
def single_end(data, at, end, classes):  # type: ignore[no-untyped-def]
    while at < end:
        code, size = decode(data, at, end)
        if classes[code] != c.MARK and classes[code] != c.IGNORED:
            break
        at += size
    return at
