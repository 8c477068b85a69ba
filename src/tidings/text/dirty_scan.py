"""Which texts of a column may hold what `sanitise.clean_text` would change: one look at every byte.

Never says no of a text that would be changed; may say yes of others, of few.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import int64, types, uint8, uint64

from tidings.jit import inlined, kernel, read, write
from tidings.text.arrow_buffers import bytes_of
from tidings.text.byte_masks import BLOCK, leading_bits, lowest_bit, padded


def doubtful(texts: pa.ChunkedArray) -> pa.Array:
    """True for texts that need a closer look. They are valid UTF-8."""
    data, offsets = bytes_of(texts)
    found = np.zeros(len(texts), np.uint8)
    _look(padded(data[offsets[0] : offsets[-1]], np.empty(0, np.uint8)), offsets - offsets[0], found)
    return pa.array(found.view(np.bool_))


@inlined
def _begins(data, at):  # type: ignore[no-untyped-def]
    """Whether a control, a turn of direction or what is no character begins here. All its bytes are there: the text is
    valid, and a block of zeros follows it."""
    first, second, third = data[at], data[at + uint64(1)], data[at + uint64(2)]
    if first < uint8(0x80):
        return True
    if first == uint8(0xC2):  # U+0080…009F
        return second < uint8(0xA0)
    if first == uint8(0xE2):  # U+2028…202E and U+2066…2069
        return (second == uint8(0x80) and uint8(0xA8) <= third <= uint8(0xAE)) or (
            second == uint8(0x81) and uint8(0xA6) <= third <= uint8(0xA9)
        )
    if first == uint8(0xEF):  # U+FDC0…FDFF, U+FFFE and U+FFFF
        return second == uint8(0xB7) or (second == uint8(0xBF) and third >= uint8(0xBE))
    return second & uint8(0x0F) == uint8(0x0F) and third == uint8(0xBF) and data[at + uint64(3)] >= uint8(0xBE)


@kernel(types.void, read(uint8), read(int64), write(uint8))
def _look(data, offsets, found):  # type: ignore[no-untyped-def]
    """All texts as one: a character never reaches into the next of them."""
    row, one = uint64(0), uint64(1)
    for block in range(uint64(0), uint64(offsets[-1]), uint64(BLOCK)):
        bits = leading_bits(data, block)
        while bits:
            at = block + lowest_bit(bits)
            bits &= bits - one
            if at < uint64(offsets[-1]) and _begins(data, at):
                while uint64(offsets[row + one]) <= at:
                    row += one
                found[row] = uint8(1)
