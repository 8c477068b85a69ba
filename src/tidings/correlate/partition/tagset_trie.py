"""Sets of tags as numbers: a set is a node, reached from the node of all but its largest tag.

One hash table holds all sets: its key is (node of the smaller set, largest tag), 64 bits that say exactly which set is
meant, so nothing ever has to be compared tag by tag, and the subsets of a set are found one from another.
Node 0 is the empty set.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write

Item = TypeVar("Item", bound=np.generic)

SIZE = 0  # the place in `state` that counts nodes, the empty set among them
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SLOTS = 1 << 10


class Nodes:
    """A growing table of sets. Slots are (key, node) pairs, node 0 marking a free one; it is kept at most half full."""

    def __init__(self, expected: int = 0) -> None:
        """With room for as many nodes as are expected; more make it grow."""
        slots = max(_FIRST_SLOTS, 1 << (2 * expected).bit_length())
        self.state = np.ones(1, np.uint64)
        self.table = np.zeros(2 * slots, np.uint64)
        self.parents: NDArray[np.uint32] = np.zeros(slots // 2, np.uint32)
        self.tags: NDArray[np.uint32] = np.zeros(slots // 2, np.uint32)

    def __len__(self) -> int:
        return int(self.state[SIZE])

    @property
    def room(self) -> int:
        """How many nodes fit; arrays with a value a node have this length."""
        return len(self.parents)

    def grow(self, more: int) -> None:
        """Make room for this many nodes more."""
        size = len(self)
        slots = 1 << (2 * (size + more)).bit_length()
        if slots <= len(self.table) // 2:
            return
        self.parents, self.tags = grown(self.parents, slots // 2), grown(self.tags, slots // 2)
        self.table = np.zeros(2 * slots, np.uint64)
        _refill(self.parents, self.tags, np.uint64(size), self.table)

    def number(self, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """The node of every row of ascending tags."""
        self.grow(len(tags))
        found = np.empty(len(starts) - 1, np.uint32)
        _number_rows(tags, starts, self.table, self.parents, self.tags, self.state, found)
        return found


def grown(array: NDArray[Item], size: int) -> NDArray[Item]:
    """The array with zeros behind it."""
    bigger = np.zeros(size, array.dtype)
    bigger[: len(array)] = array
    return bigger


@inlined
def slot_of(table, key):  # type: ignore[no-untyped-def]
    """The slot that holds a key, or the free one where it belongs."""
    mask = (uint64(table.size) >> _ONE) - _ONE
    slot = ((key * _MIX) >> uint64(20)) & mask
    while table[(slot << _ONE) + _ONE] != _ZERO and table[slot << _ONE] != key:
        slot = (slot + _ONE) & mask
    return slot << _ONE


@inlined
def find(table, parent, tag):  # type: ignore[no-untyped-def]
    """The node of a set and one larger tag; 0 if it is not there."""
    return table[slot_of(table, (uint64(parent) << uint64(32)) | uint64(tag)) + _ONE]


@inlined
def child(table, parents, tags, state, parent, tag):  # type: ignore[no-untyped-def]
    """The same, made if it is not there; the table must have room."""
    key = (uint64(parent) << uint64(32)) | uint64(tag)
    slot = slot_of(table, key)
    node = table[slot + _ONE]
    if node == _ZERO:
        node = state[SIZE]
        state[SIZE] = node + _ONE
        table[slot], table[slot + _ONE] = key, node
        parents[node], tags[node] = uint32(parent), uint32(tag)
    return node


@kernel(types.void, read(uint32), read(uint32), uint64, write(uint64))
def _refill(parents, tags, size, table):  # type: ignore[no-untyped-def]
    for node in range(_ONE, size):
        key = (uint64(parents[node]) << uint64(32)) | uint64(tags[node])
        slot = slot_of(table, key)
        table[slot], table[slot + _ONE] = key, uint64(node)


@kernel(
    types.void, read(uint32), read(uint64), write(uint64), write(uint32), write(uint32), write(uint64), write(uint32)
)
def _number_rows(rows, starts, table, parents, tags, state, found):  # type: ignore[no-untyped-def]
    for row in range(uint64(found.size)):
        node = _ZERO
        for at in range(starts[row], starts[row + _ONE]):
            node = child(table, parents, tags, state, node, rows[at])
        found[row] = uint32(node)
