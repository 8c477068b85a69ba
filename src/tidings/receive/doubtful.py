"""Which texts of a column may hold what `sanitise.clean_text` would change: one look at every byte.

Never says no of a text that would be changed; may say yes of others, of few.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import int64, types, uint8, uint64

from tidings.jit import inlined, kernel, read, write
from tidings.receive.column import bytes_of

_BLOCK = 32  # bytes that are compared at once


def doubtful(texts: pa.ChunkedArray) -> pa.Array:
    """True for texts that need a closer look. They are valid UTF-8."""
    data, offsets = bytes_of(texts)
    found = np.empty(len(texts), np.uint8)
    _look(data, offsets, found)
    return pa.array(found.view(np.bool_))


@inlined
def _may_begin(byte):  # type: ignore[no-untyped-def]
    """Whether a control may begin with this byte: ASCII's own, U+0080…, U+2028…, U+FDD0…, the ends of the planes."""
    control = uint8(byte < uint8(0x20)) & uint8(byte != uint8(0x0A)) | uint8(byte == uint8(0x7F))
    return control | uint8(byte == uint8(0xC2)) | uint8(byte == uint8(0xE2)) | uint8(byte >= uint8(0xEF))


@inlined
def _begins(data, at):  # type: ignore[no-untyped-def]
    """Whether one of them stands here. The bytes behind a first byte that promises them are there: it is valid."""
    byte = data[at]
    if byte < uint8(0x80):
        return byte == uint8(0x7F) or (byte < uint8(0x20) and byte != uint8(0x09) and byte != uint8(0x0A))
    if not _may_begin(byte):
        return False
    second = data[at + uint64(1)]
    if byte == uint8(0xC2):
        return second < uint8(0xA0)
    third = data[at + uint64(2)]
    if byte == uint8(0xE2):  # U+2028…202E and U+2066…2069
        return (second == uint8(0x80) and uint8(0xA8) <= third <= uint8(0xAE)) or (
            second == uint8(0x81) and uint8(0xA6) <= third <= uint8(0xA9)
        )
    if byte == uint8(0xEF):  # U+FDC0…FDFF, U+FFFE and U+FFFF
        return second == uint8(0xB7) or (second == uint8(0xBF) and third >= uint8(0xBE))
    return second & uint8(0x0F) == uint8(0x0F) and third == uint8(0xBF) and data[at + uint64(3)] >= uint8(0xBE)


@kernel(types.void, read(uint8), read(int64), write(uint8))
def _look(data, offsets, found):  # type: ignore[no-untyped-def]
    block = uint64(_BLOCK)
    for row in range(uint64(len(found))):
        at, end = uint64(offsets[row]), uint64(offsets[row + uint64(1)])
        found[row] = uint8(0)
        while at < end:
            step = block
            if at + block <= end:
                some = uint8(0)
                for place in range(block):
                    some |= _may_begin(data[at + place])
            else:
                some, step = uint8(1), end - at
            if some:
                for place in range(step):
                    if _begins(data, at + place):
                        found[row] = uint8(1)
            at += step
