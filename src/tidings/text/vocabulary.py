"""Which terms have a number: the subscribed ones. Term 0 is "none of them".

`Vocabulary` is flat arrays, so that all workers of a machine share one copy; `Interner` is the growing kind used while
an index is compiled. Both tell the numbers of terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write
from tidings.text.arrow_buffers import bytes_of

_ONE = np.uint64(1)
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


class PackedTerms(NamedTuple):
    """Terms as one run of bytes and where each starts, with the end of the last."""

    text: NDArray[np.uint8]
    starts: NDArray[np.uint64]

    def each(self) -> list[bytes]:
        whole = self.text.tobytes()
        return [whole[start:end] for start, end in itertools.pairwise(self.starts.tolist())]


class Numbering(Protocol):
    """What turns terms into numbers."""

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        """The number of each term; 0 for a term that has none, as the empty one."""
        ...


class Interner:
    """Gives every new term the next number, from 1 on."""

    def __init__(self, known: Sequence[bytes] = ()) -> None:
        self._number: dict[bytes, int] = {term: number for number, term in enumerate(known, 1)}

    def __len__(self) -> int:
        return len(self._number)

    def number(self, term: str) -> int:
        return self._number.setdefault(term.encode(), len(self._number) + 1)

    def numbers(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        known = self._number
        return np.fromiter((known.setdefault(t, len(known) + 1) if t else 0 for t in terms), np.uint32, len(terms))

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        return self.numbers(terms.each())

    def terms(self) -> list[bytes]:
        """All terms, in the order of their numbers."""
        return list(self._number)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Terms numbered from `first` on, found through an open-addressing table."""

    first: int
    text: NDArray[np.uint8]
    starts: NDArray[np.uint64]
    table: NDArray[np.uint32]

    @classmethod
    def build(cls, terms: Sequence[bytes], first: int = 1) -> Vocabulary:
        text, starts = packed_terms(terms)
        table = np.zeros(1 << max(4, (2 * len(terms)).bit_length()), np.uint32)
        _fill(text, starts, table)
        return cls(first, text, starts, table)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def numbers(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        return self.find(packed_terms(terms))

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        found = np.zeros(len(terms.starts) - 1, np.uint32)
        _find_all(terms.text, terms.starts, self.text, self.starts, self.table, found)
        found[found > 0] += np.uint32(self.first - 1)
        return found

    def text_of(self, number: int) -> bytes:
        start, end = self.starts[number - self.first : number - self.first + 2].tolist()
        return self.text[start:end].tobytes()

    def terms(self) -> list[bytes]:
        return PackedTerms(self.text, self.starts).each()


class LayeredVocabulary:
    """Several vocabularies, each numbering the terms the ones before it lack."""

    def __init__(self, layers: Sequence[Vocabulary]) -> None:
        self._layers = tuple(layers)

    def numbers(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        return self.find(packed_terms(terms))

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        found = np.zeros(len(terms.starts) - 1, np.uint32)
        for layer in self._layers:
            found = np.maximum(found, layer.find(terms))
        return found

    def __len__(self) -> int:
        return sum(map(len, self._layers))

    def text_of(self, number: int) -> bytes:
        """The term that has this number."""
        for layer in self._layers:
            if layer.first <= number < layer.first + len(layer):
                return layer.text_of(number)
        raise KeyError(number)

    def terms(self) -> list[bytes]:
        """All terms, in the order of their numbers."""
        return [term for layer in self._layers for term in layer.terms()]


def packed_terms(terms: Sequence[bytes]) -> PackedTerms:
    lengths = np.fromiter(map(len, terms), np.uint64, len(terms))
    starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
    return PackedTerms(np.frombuffer(b"".join(terms), np.uint8), starts)


def hash_terms(terms: Sequence[bytes]) -> NDArray[np.uint64]:
    """A hash of each term that stays the same for ever: plans and ids rely on it."""
    text, starts = packed_terms(terms)
    hashes = np.empty(len(terms), np.uint64)
    _hash_all(text, starts, hashes)
    return hashes


def hash_column(texts: pa.Array) -> NDArray[np.uint64]:
    """The same hash for an Arrow column of strings or bytes."""
    data, offsets = bytes_of(texts)
    hashes = np.empty(len(texts), np.uint64)
    _hash_all(data, offsets.astype(np.uint64), hashes)
    return hashes


@inlined
def bytes_hash(text, start, end):  # type: ignore[no-untyped-def]
    value = _BASIS
    for at in range(start, end):
        value = (value ^ uint64(text[at])) * _PRIME
    return value ^ (value >> uint64(32))


@kernel(types.void, read(uint8), read(uint64), write(uint64))
def _hash_all(text, starts, hashes):  # type: ignore[no-untyped-def]
    for term in range(uint64(hashes.size)):
        hashes[term] = bytes_hash(text, starts[term], starts[term + _ONE])


@inlined
def same_bytes(left, left_start, left_end, right, right_start, right_end):  # type: ignore[no-untyped-def]
    if left_end - left_start != right_end - right_start:
        return False
    for offset in range(left_end - left_start):
        if left[left_start + offset] != right[right_start + offset]:
            return False
    return True


@kernel(types.void, read(uint8), read(uint64), write(uint32))
def _fill(text, starts, table):  # type: ignore[no-untyped-def]
    mask = uint64(table.size - 1)
    for term in range(uint64(starts.size - 1)):
        slot = bytes_hash(text, starts[term], starts[term + _ONE]) & mask
        while table[slot] != 0:
            slot = (slot + _ONE) & mask
        table[slot] = uint32(term + _ONE)


@kernel(types.void, read(uint8), read(uint64), read(uint8), read(uint64), read(uint32), write(uint32))
def _find_all(wanted, wanted_starts, text, starts, table, found):  # type: ignore[no-untyped-def]
    mask = uint64(table.size - 1)
    for number in range(uint64(found.size)):
        begin, end = wanted_starts[number], wanted_starts[number + _ONE]
        slot = bytes_hash(wanted, begin, end) & mask
        while table[slot] != 0:
            term = uint64(table[slot]) - _ONE
            if same_bytes(wanted, begin, end, text, starts[term], starts[term + _ONE]):
                found[number] = table[slot]
                break
            slot = (slot + _ONE) & mask
