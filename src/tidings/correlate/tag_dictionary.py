"""Number the names of tags without a Python object per name: one text, the offsets in it, and a hash table.

Names are sent as *lines*: one name per line, in the order of their numbers.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.tagset_trie import grow_array
from tidings.jit import kernel, read, write
from tidings.text.vocabulary import bytes_hash, same_bytes

_NEW_LINE = np.uint8(10)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_HALF = np.uint64(32)


class TagDictionary:
    """All names seen so far, numbered from 0 in order of first occurrence."""

    def __init__(self) -> None:
        self._text: NDArray[np.uint8] = np.zeros(1 << 14, np.uint8)
        self._starts: NDArray[np.uint64] = np.zeros(1 << 10, np.uint64)
        self._slots = np.zeros(1 << 11, np.uint64)
        self._state = np.zeros(1, np.uint64)

    def __len__(self) -> int:
        return int(self._state[0])

    def assign_ids(
        self, text: NDArray[np.uint8], begins: NDArray[np.uint64], ends: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        """Return the number of each span of a text; a new name gets the next number."""
        self._reserve(len(begins), int((ends - begins).sum()))
        ids = np.empty(len(begins), np.uint32)
        _find_or_add(text, begins, ends, self._text, self._starts, self._slots, self._state, ids)
        return ids

    def parse_lines(self, lines: bytes) -> NDArray[np.uint32]:
        """Return the number of each name of `lines`."""
        if not lines:
            return np.zeros(0, np.uint32)
        text = np.frombuffer(lines, np.uint8)
        ends = np.append(np.flatnonzero(text == _NEW_LINE), len(text)).astype(np.uint64)
        return self.assign_ids(text, np.concatenate([np.zeros(1, np.uint64), ends[:-1] + _ONE]), ends)

    def format_lines(self, numbers: NDArray[np.uint32]) -> bytes:
        """Return these names, one per line."""
        lengths = np.diff(self._starts[: len(self) + 1])[numbers]
        text = np.empty(int(lengths.sum()) + len(numbers), np.uint8)
        _write_lines(self._text, self._starts, numbers, text)
        return text[:-1].tobytes()

    def names_from(self, first: int) -> list[bytes]:
        """Return the names from this number on."""
        starts = self._starts[first : len(self) + 1].tolist()
        text = self._text[starts[0] : starts[-1]].tobytes()
        return [text[begin - starts[0] : end - starts[0]] for begin, end in pairwise(starts)]

    def to_arrow(self) -> pa.Array:
        """Return all names as an Arrow column of strings."""
        starts = self._starts[: len(self) + 1]
        buffers = [None, pa.py_buffer(starts.astype(np.int64)), pa.py_buffer(self._text[: int(starts[-1])].tobytes())]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers).cast(pa.string())

    def _reserve(self, names: int, text_bytes: int) -> None:
        size = len(self)
        if (needed := int(self._starts[size]) + text_bytes) > len(self._text):
            self._text = grow_array(self._text, 2 * needed)
        if size + names + 1 > len(self._starts):
            self._starts = grow_array(self._starts, 2 * (size + names) + 1)
            self._slots = np.zeros(2 << len(self._starts).bit_length(), np.uint64)
            _refill(self._text, self._starts, self._state[0], self._slots)


@kernel(
    types.void,
    read(uint8),
    read(uint64),
    read(uint64),
    write(uint8),
    write(uint64),
    write(uint64),
    write(uint64),
    write(uint32),
)
def _find_or_add(text, begins, ends, known, starts, slots, state, ids):  # type: ignore[no-untyped-def]
    """Write the number of each span. A slot has half of the hash of a name, and its number plus 1 in the lower half."""
    mask = uint64(slots.size) - _ONE
    for row in range(uint64(ids.size)):
        begin, end = begins[row], ends[row]
        value = bytes_hash(text, begin, end)
        slot = value & mask
        while True:
            if slots[slot] == _ZERO:
                number = state[_ZERO]
                state[_ZERO] = number + _ONE
                slots[slot] = ((value >> _HALF) << _HALF) | (number + _ONE)
                first = starts[number]
                for offset in range(end - begin):
                    known[first + offset] = text[begin + offset]
                starts[number + _ONE] = first + end - begin
                break
            if slots[slot] >> _HALF == value >> _HALF:
                number = uint64(uint32(slots[slot])) - _ONE
                if same_bytes(text, begin, end, known, starts[number], starts[number + _ONE]):
                    break
            slot = (slot + _ONE) & mask
        ids[row] = uint32(number)


@kernel(types.void, read(uint8), read(uint64), uint64, write(uint64))
def _refill(known, starts, size, slots):  # type: ignore[no-untyped-def]
    mask = uint64(slots.size) - _ONE
    for number in range(size):
        value = bytes_hash(known, starts[number], starts[number + _ONE])
        slot = value & mask
        while slots[slot] != _ZERO:
            slot = (slot + _ONE) & mask
        slots[slot] = ((value >> _HALF) << _HALF) | (number + _ONE)


@kernel(types.void, read(uint8), read(uint64), read(uint32), write(uint8))
def _write_lines(known, starts, numbers, text):  # type: ignore[no-untyped-def]
    at = _ZERO
    for row in range(uint64(numbers.size)):
        number = uint64(numbers[row])
        for place in range(starts[number], starts[number + _ONE]):
            text[at] = known[place]
            at += _ONE
        text[at] = _NEW_LINE
        at += _ONE


def number_by_first_occurrence(numbers: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the distinct numbers in order of first occurrence, and the index of each number among them."""
    index_of = np.zeros(int(numbers.max(initial=0)) + 1, np.uint32)
    used, local = np.empty(min(len(numbers), len(index_of)), np.uint32), np.empty(len(numbers), np.uint32)
    count = _number_locally(numbers, index_of, used, local)
    return used[:count], local


@kernel(uint32, read(uint32), write(uint32), write(uint32), write(uint32))
def _number_locally(numbers, index_of, used, local):  # type: ignore[no-untyped-def]
    count = uint32(0)
    for at in range(uint64(numbers.size)):
        number = uint64(numbers[at])
        if index_of[number] == 0:
            used[uint64(count)] = numbers[at]
            count = uint32(count + 1)
            index_of[number] = count
        local[at] = uint32(index_of[number] - 1)
    return count
