"""Find the texts of a column that `sanitize.clean_text` may change, in one pass over their bytes.

There are no false negatives and few false positives.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import int64, types, uint8, uint64

from tidings.jit import inline, kernel, read, write
from tidings.text.arrow_buffers import text_buffers
from tidings.text.byte_masks import BLOCK_BYTES, lowest_bit, pad, suspect_bits


def find_dirty(texts: pa.ChunkedArray) -> pa.Array:
    """Return True for texts that may need cleaning. The texts must be valid UTF-8."""
    data, offsets = text_buffers(texts)
    is_dirty = np.zeros(len(texts), np.uint8)
    _scan(pad(data[offsets[0] : offsets[-1]], np.empty(0, np.uint8)), offsets - offsets[0], is_dirty)
    return pa.array(is_dirty.view(np.bool_))


@inline
def _is_dirty_at(data, at):  # type: ignore[no-untyped-def]
    """Whether a control, a direction mark, a hidden character or a noncharacter starts here.

    Reading ahead is safe: the text is valid and a block of zeros follows it.
    """
    first, second, third = data[at], data[at + uint64(1)], data[at + uint64(2)]
    if first < uint8(0x80):
        return True
    if first == uint8(0xC2):  # U+0080…009F
        return second < uint8(0xA0)
    if first == uint8(0xE1):  # U+180B…180F
        return second == uint8(0xA0) and uint8(0x8B) <= third <= uint8(0x8F)
    if first == uint8(0xE2):  # U+200B…200D, U+2028…202E and U+2060…206F
        is_hidden = uint8(0x8B) <= third <= uint8(0x8D)
        return (second == uint8(0x80) and (is_hidden or uint8(0xA8) <= third <= uint8(0xAE))) or (
            second == uint8(0x81) and uint8(0xA0) <= third <= uint8(0xAF)
        )
    if first == uint8(0xEF):  # U+FDC0…FDFF, U+FEFF, U+FFFE, U+FFFF, and two of U+FE00…FE0F
        if second == uint8(0xB8) and third <= uint8(0x8F):  # one alone is common after emoji
            next_first, next_second = data[at + uint64(3)], data[at + uint64(4)]
            is_next = next_first == uint8(0xEF) and next_second == uint8(0xB8)
            return is_next and data[at + uint64(5)] <= uint8(0x8F)
        is_mark = second == uint8(0xBB) and third == uint8(0xBF)
        return is_mark or second == uint8(0xB7) or (second == uint8(0xBF) and third >= uint8(0xBE))
    if first == uint8(0xF3) and second == uint8(0xA0) and third <= uint8(0x87):  # U+E0000…E01FF
        return True
    return second & uint8(0x0F) == uint8(0x0F) and third == uint8(0xBF) and data[at + uint64(3)] >= uint8(0xBE)


@kernel(types.void, read(uint8), read(int64), write(uint8))
def _scan(data, offsets, is_dirty):  # type: ignore[no-untyped-def]
    """Scan all texts as one; no character extends into the next text."""
    row, one = uint64(0), uint64(1)
    for block in range(uint64(0), uint64(offsets[-1]), uint64(BLOCK_BYTES)):
        bits = suspect_bits(data, block)
        while bits:
            at = block + lowest_bit(bits)
            bits &= bits - one
            if at < uint64(offsets[-1]) and _is_dirty_at(data, at):
                while uint64(offsets[row + one]) <= at:
                    row += one
                is_dirty[row] = uint8(1)
