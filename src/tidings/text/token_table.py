"""The token table: an open-addressing hash table from raw tokens to term ids, read and filled by `tokenizer.py`.

A slot is four 64-bit words: two with the first 16 bytes of the token, so that most comparisons need no other memory;
kind and length (0: free); ``arena offset << 32 | term id``. Longer tokens have a hash in the first word. `arena` is a
sequence of entries ``slot (4 bytes), kind, length - 1, bytes``.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint8, uint32, uint64

from tidings.jit import inline, kernel, read, write

PENDING = np.uint64(0xFFFFFFFF)  # the term id of a token whose term is not derived yet
PENDING_BIT = np.uint32(0x80000000)  # in the output: marks a slot instead of a term id
KIND_WORD = np.uint8(0)
KIND_TAG = np.uint8(1)
HEADER = 6  # bytes before the text of an arena entry
SLOT = 4  # 64-bit words per slot
INLINE_BYTES = np.uint64(16)  # bytes of a token that fit into its slot

# Offsets in the state array that belong to the token table.
ENTRIES, ARENA = 2, 3

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@inline
def lower(byte):  # type: ignore[no-untyped-def]
    return byte | uint8(0x20) if byte >= uint8(65) and byte <= uint8(90) else byte


@inline
def hash_bytes(data, start, end):  # type: ignore[no-untyped-def]
    value = _BASIS
    for at in range(start, end):
        value = (value ^ uint64(lower(data[at]))) * _PRIME
    return value


@inline
def pack_token(data, start, end):  # type: ignore[no-untyped-def]
    """Return the two words that a token is compared by: its bytes if they fit, otherwise its hash."""
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


@inline
def first_slot(low, high, label, slots):  # type: ignore[no-untyped-def]
    """Return the slot where the search for a token starts."""
    value = (low ^ (high * _PRIME) ^ label) * _MIX
    value = (value ^ (value >> uint64(32))) * _MIX
    return (value >> uint64(29)) & uint64(slots.size // SLOT - 1)


@inline
def _same_bytes(data, start, length, arena, at):  # type: ignore[no-untyped-def]
    for offset in range(length):
        if arena[at + uint64(HEADER) + offset] != lower(data[start + offset]):
            return False
    return True


@inline
def find_or_add(data, start, low, high, label, slot, slots, arena, state):  # type: ignore[no-untyped-def]
    """Return the term id of a raw token, or its slot with the pending bit; add the token if it is new."""
    length = label >> uint64(8)
    while True:
        at = slot * uint64(SLOT)
        stored = slots[at + uint64(2)]
        if slots[at] == low and slots[at + _ONE] == high and stored == label:
            value = slots[at + uint64(3)]
            if length <= INLINE_BYTES or _same_bytes(data, start, length, arena, value >> uint64(32)):
                return PENDING_BIT | uint32(slot) if value & PENDING == PENDING else uint32(value & PENDING)
        if stored == 0:
            _add(data, start, length, uint8(label & uint64(0xFF)), slot, slots, arena, state)
            slots[at], slots[at + _ONE], slots[at + uint64(2)] = low, high, label
            return PENDING_BIT | uint32(slot)
        slot = (slot + _ONE) & uint64(slots.size // SLOT - 1)


@inline
def _add(data, start, length, kind, slot, slots, arena, state):  # type: ignore[no-untyped-def]
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
    """Insert every entry of the arena, with its term id, into an empty table of another size."""
    mask = uint64(slots.size // SLOT - 1)
    at = _ZERO
    while at < used:
        old = _ZERO
        for byte in range(uint64(4)):
            old |= uint64(arena[at + byte]) << (byte * uint64(8))
        old *= uint64(SLOT)
        slot = first_slot(old_slots[old], old_slots[old + _ONE], old_slots[old + uint64(2)], slots)
        while slots[slot * uint64(SLOT) + uint64(2)] != 0:
            slot = (slot + _ONE) & mask
        for word in range(uint64(SLOT)):
            slots[slot * uint64(SLOT) + word] = old_slots[old + word]
        for byte in range(uint64(4)):
            arena[at + byte] = uint8((slot >> (byte * uint64(8))) & uint64(0xFF))
        at += uint64(HEADER) + uint64(arena[at + uint64(5)]) + _ONE


@kernel(uint64, read(uint8), uint64, uint64, write(uint64), write(uint8), write(uint8))
def list_entries(arena, since, until, slots, kinds, text):  # type: ignore[no-untyped-def]
    """Write slots, kinds and bytes (a line break after each) of entries in an arena range; return their count.

    The text is as long as this part of the arena, minus five bytes per entry.
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
