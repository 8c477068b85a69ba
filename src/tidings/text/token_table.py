"""The lexicon: which raw token has which term number. An open-addressing table, read and filled by `tokenise.py`.

A slot is four 64-bit words: the first 16 bytes of the token in two of them, so that nearly every token is compared
without looking elsewhere; kind and length (0: a free slot); ``arena position << 32 | term number``. Of longer tokens
the first word is a hash instead. `arena` holds, entry after entry, ``slot (4 bytes), kind, length - 1, bytes``.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64

from tidings.jit import inlined, kernel, read, write

PENDING = np.uint64(0xFFFFFFFF)  # the term number of a token whose stem is not worked out yet
PENDING_BIT = np.uint32(0x80000000)  # marks, in the output, a slot number instead of a term number
KIND_WORD = np.uint8(0)
KIND_TAG = np.uint8(1)
HEADER = 6  # bytes before the text of an arena entry
SLOT = 4  # words a slot
INLINE_BYTES = np.uint64(16)  # bytes of a token that fit into its slot

# Places in the state array that the lexicon keeps.
ENTRIES, ARENA = 2, 3

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@inlined
def lower(byte):  # type: ignore[no-untyped-def]
    return byte | uint8(0x20) if byte >= uint8(65) and byte <= uint8(90) else byte


@inlined
def hash_bytes(data, start, end):  # type: ignore[no-untyped-def]
    value = _BASIS
    for at in range(start, end):
        value = (value ^ uint64(lower(data[at]))) * _PRIME
    return value


@inlined
def packed(data, start, end):  # type: ignore[no-untyped-def]
    """The two words a token is compared by: its bytes if they fit, else its hash."""
    if end - start > INLINE_BYTES:
        return hash_bytes(data, start, end), _ZERO
    low, high = _ZERO, _ZERO
    for offset in range(end - start):
        byte = uint64(lower(data[start + offset]))
        if offset < 8:
            low |= byte << (offset * uint64(8))
        else:
            high |= byte << ((offset - uint64(8)) * uint64(8))
    return low, high


@inlined
def slot_of(low, high, label, slots):  # type: ignore[no-untyped-def]
    """Where the search for a token starts."""
    value = (low ^ (high * _PRIME) ^ label) * _MIX
    value = (value ^ (value >> uint64(32))) * _MIX
    return (value >> uint64(29)) & uint64(slots.size // SLOT - 1)


@inlined
def _same_bytes(data, start, length, arena, at):  # type: ignore[no-untyped-def]
    for offset in range(length):
        if arena[at + uint64(HEADER) + offset] != lower(data[start + offset]):
            return False
    return True


@inlined
def find(data, start, low, high, label, slot, slots, arena, state):  # type: ignore[no-untyped-def]
    """The term number of a raw token, or its slot with the pending bit; a token never seen is put in."""
    length = label >> uint64(8)
    while True:
        at = slot * uint64(SLOT)
        held = slots[at + uint64(2)]
        if slots[at] == low and slots[at + _ONE] == high and held == label:
            value = slots[at + uint64(3)]
            if length <= INLINE_BYTES or _same_bytes(data, start, length, arena, value >> uint64(32)):
                return PENDING_BIT | uint32(slot) if value & PENDING == PENDING else uint32(value & PENDING)
        if held == 0:
            _put(data, start, length, uint8(label & uint64(0xFF)), slot, slots, arena, state)
            slots[at], slots[at + _ONE], slots[at + uint64(2)] = low, high, label
            return PENDING_BIT | uint32(slot)
        slot = (slot + _ONE) & uint64(slots.size // SLOT - 1)


@inlined
def _put(data, start, length, kind, slot, slots, arena, state):  # type: ignore[no-untyped-def]
    at = uint64(state[ARENA])
    slots[slot * uint64(SLOT) + uint64(3)] = (at << uint64(32)) | PENDING
    for byte in range(uint64(4)):
        arena[at + byte] = uint8((slot >> (byte * uint64(8))) & uint64(0xFF))
    arena[at + uint64(4)] = kind
    arena[at + uint64(5)] = uint8(length - _ONE)
    for offset in range(length):
        arena[at + uint64(HEADER) + offset] = lower(data[start + offset])
    state[ARENA] = at + uint64(HEADER) + length
    state[ENTRIES] += _ONE


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
        slot = slot_of(old_slots[old], old_slots[old + _ONE], old_slots[old + uint64(2)], slots)
        while slots[slot * uint64(SLOT) + uint64(2)] != 0:
            slot = (slot + _ONE) & mask
        for word in range(uint64(SLOT)):
            slots[slot * uint64(SLOT) + word] = old_slots[old + word]
        for byte in range(uint64(4)):
            arena[at + byte] = uint8((slot >> (byte * uint64(8))) & uint64(0xFF))
        at += uint64(HEADER) + uint64(arena[at + uint64(5)]) + _ONE


@kernel(uint64, read(uint8), uint64, uint64, write(uint64), write(uint8), write(uint8))
def list_entries(arena, since, until, slots, kinds, text):  # type: ignore[no-untyped-def]
    """The entries between two places of the arena: slot and kind of each, and their bytes, a line break behind each.

    Returns how many there are; the text is as long as that stretch of the arena less five bytes an entry.
    """
    count, used, at = _ZERO, _ZERO, since
    while at < until:
        slots[count] = _ZERO
        for byte in range(uint64(4)):
            slots[count] |= uint64(arena[at + byte]) << (byte * uint64(8))
        kinds[count] = arena[at + uint64(4)]
        length = uint64(arena[at + uint64(5)]) + _ONE
        for offset in range(length):
            text[used + offset] = arena[at + uint64(HEADER) + offset]
        text[used + length] = uint8(10)
        used += length + _ONE
        at += uint64(HEADER) + length
        count += _ONE
    return count
