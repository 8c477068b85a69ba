"""A trie of tag sets: a set is a node whose parent is the set without its largest tag. Node 0 is the empty set.

One hash table holds all sets. Its key (parent node, largest tag) has 64 bits and identifies the set exactly, so sets
are never compared tag by tag, and each subset of a set is found from a smaller one.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write

Item = TypeVar("Item", bound=np.generic)

SIZE = 0  # offset in `state` of the number of nodes, including the empty set
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SLOTS = 1 << 10


class TagSetTrie:
    """A growing hash table of tag sets. Slots are (key, node) pairs; node 0 marks a free one. At most half full."""

    def __init__(self, expected: int = 0) -> None:
        """Allocate space for the expected number of nodes; the table grows if there are more."""
        slots = max(_FIRST_SLOTS, 1 << (2 * expected).bit_length())
        self.state = np.ones(1, np.uint64)
        self.table = np.zeros(2 * slots, np.uint64)
        self.parents: NDArray[np.uint32] = np.zeros(slots // 2, np.uint32)
        self.tags: NDArray[np.uint32] = np.zeros(slots // 2, np.uint32)

    def __len__(self) -> int:
        return int(self.state[SIZE])

    @property
    def capacity(self) -> int:
        """Return how many nodes fit. Arrays with one value per node have this length."""
        return len(self.parents)

    def grow(self, more: int) -> None:
        """Make space for this many additional nodes."""
        size = len(self)
        slots = 1 << (2 * (size + more)).bit_length()
        if slots <= len(self.table) // 2:
            return
        self.parents, self.tags = grow_array(self.parents, slots // 2), grow_array(self.tags, slots // 2)
        self.table = np.zeros(2 * slots, np.uint64)
        _refill(self.parents, self.tags, np.uint64(size), self.table)

    def find_or_add_rows(self, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the node of every row of ascending tags."""
        self.grow(len(tags))
        nodes = np.empty(len(starts) - 1, np.uint32)
        _find_or_add_rows(tags, starts, self.table, self.parents, self.tags, self.state, nodes)
        return nodes


def grow_array(array: NDArray[Item], size: int) -> NDArray[Item]:
    """Return a copy of the array, extended with zeros to `size`."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


@inline
def find_slot(table, key):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or the free slot where it belongs."""
    mask = (uint64(table.size) >> _ONE) - _ONE
    slot = ((key * _MIX) >> uint64(20)) & mask
    while table[(slot << _ONE) + _ONE] != _ZERO and table[slot << _ONE] != key:
        slot = (slot + _ONE) & mask
    return slot << _ONE


@inline
def find(table, parent, tag):  # type: ignore[no-untyped-def]
    """Return the node of a set plus one larger tag, or 0 if it does not exist."""
    return table[find_slot(table, (uint64(parent) << uint64(32)) | uint64(tag)) + _ONE]


@inline
def find_or_add(table, parents, tags, state, parent, tag):  # type: ignore[no-untyped-def]
    """Return the node of a set plus one larger tag. It is added if needed: the table must have space."""
    key = (uint64(parent) << uint64(32)) | uint64(tag)
    slot = find_slot(table, key)
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
        slot = find_slot(table, key)
        table[slot], table[slot + _ONE] = key, uint64(node)


@kernel(
    types.void, read(uint32), read(uint64), write(uint64), write(uint32), write(uint32), write(uint64), write(uint32)
)
def _find_or_add_rows(rows, starts, table, parents, tags, state, nodes):  # type: ignore[no-untyped-def]
    for row in range(uint64(nodes.size)):
        node = _ZERO
        for at in range(starts[row], starts[row + _ONE]):
            node = find_or_add(table, parents, tags, state, node, rows[at])
        nodes[row] = uint32(node)
