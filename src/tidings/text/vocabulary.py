"""Terms and their ids. Id 0 means "not in the vocabulary".

`Vocabulary` is flat arrays, so that all workers of a machine share one copy; `Interner` grows while an index is
compiled.
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

from tidings.jit import inline, kernel, read, write
from tidings.ragged import take_rows
from tidings.text.arrow_buffers import text_buffers

_ONE = np.uint64(1)
_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


class PackedTerms(NamedTuple):
    """Concatenated terms and their offsets, with the end of the last."""

    text: NDArray[np.uint8]
    starts: NDArray[np.uint64]

    def to_list(self) -> list[bytes]:
        data = self.text.tobytes()
        return [data[start:end] for start, end in itertools.pairwise(self.starts.tolist())]


class TermDictionary(Protocol):
    """Maps terms to ids."""

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        """Return the id of each term; 0 for unknown terms and the empty one."""
        ...


class Interner:
    """A dictionary that gives every new term the next id, from 1 on."""

    def __init__(self, known: Sequence[bytes] = ()) -> None:
        self._ids: dict[bytes, int] = {term: number for number, term in enumerate(known, 1)}

    def __len__(self) -> int:
        return len(self._ids)

    def intern(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        """Return the id of each term, adding the new ones; 0 for the empty term."""
        ids = self._ids
        return np.fromiter((ids.setdefault(t, len(ids) + 1) if t else 0 for t in terms), np.uint32, len(terms))

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        return self.intern(terms.to_list())

    def terms(self) -> list[bytes]:
        """Return all terms in the order of their ids."""
        return list(self._ids)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Terms with consecutive ids from `first` on, in an open-addressing hash table."""

    first: int
    text: NDArray[np.uint8]
    starts: NDArray[np.uint64]
    table: NDArray[np.uint32]

    @classmethod
    def build(cls, terms: Sequence[bytes], first: int = 1) -> Vocabulary:
        text, starts = pack_terms(terms)
        table = np.zeros(1 << max(4, (2 * len(terms)).bit_length()), np.uint32)
        _fill(text, starts, table)
        return cls(first, text, starts, table)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def find_ids(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        return self.find(pack_terms(terms))

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        ids = np.zeros(len(terms.starts) - 1, np.uint32)
        _find_all(terms.text, terms.starts, self.text, self.starts, self.table, ids)
        ids[ids > 0] += np.uint32(self.first - 1)
        return ids

    def text_of(self, term: int) -> bytes:
        start, end = self.starts[term - self.first : term - self.first + 2].tolist()
        return self.text[start:end].tobytes()

    def terms(self) -> list[bytes]:
        return PackedTerms(self.text, self.starts).to_list()


class LayeredVocabulary:
    """Several vocabularies with consecutive ids; each holds the terms that the earlier ones lack."""

    def __init__(self, layers: Sequence[Vocabulary]) -> None:
        self._layers = tuple(layers)

    def find_ids(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        return self.find(pack_terms(terms))

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        ids = np.zeros(len(terms.starts) - 1, np.uint32)
        for layer in self._layers:
            ids = np.maximum(ids, layer.find(terms))
        return ids

    def __len__(self) -> int:
        return sum(map(len, self._layers))

    def text_of(self, term: int) -> bytes:
        """Return the text of a term id. Raise KeyError if no layer has it."""
        for layer in self._layers:
            if layer.first <= term < layer.first + len(layer):
                return layer.text_of(term)
        raise KeyError(term)

    def terms(self) -> list[bytes]:
        """Return all terms in the order of their ids."""
        return [term for layer in self._layers for term in layer.terms()]

    def hash_of(self, numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
        """Return the hash of each term id, 0 for ids that no layer has: `hash_terms` without a list of the terms."""
        hashes = np.zeros(len(numbers), np.uint64)
        for layer in self._layers:
            rows = np.flatnonzero((layer.first <= numbers) & (numbers < layer.first + len(layer)))
            firsts = layer.starts[numbers[rows] - layer.first]
            lengths = layer.starts[numbers[rows] - layer.first + 1] - firsts
            hashes[rows] = _hash_packed(*take_rows(layer.text, firsts, lengths))
        return hashes


def pack_terms(terms: Sequence[bytes]) -> PackedTerms:
    lengths = np.fromiter(map(len, terms), np.uint64, len(terms))
    starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
    return PackedTerms(np.frombuffer(b"".join(terms), np.uint8), starts)


def hash_terms(terms: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return a hash of each term. Stored plans and ids depend on it, so it must never change."""
    return _hash_packed(*pack_terms(terms))


def _hash_packed(text: NDArray[np.uint8], starts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(starts) - 1, np.uint64)
    _hash_all(text, starts, hashes)
    return hashes


def hash_column(texts: pa.Array) -> NDArray[np.uint64]:
    """Return the hash of `hash_terms` for an Arrow column of strings or bytes."""
    data, offsets = text_buffers(texts)
    return _hash_packed(data, offsets.astype(np.uint64))


@inline
def bytes_hash(text, start, end):  # type: ignore[no-untyped-def]
    value = _BASIS
    for at in range(start, end):
        value = (value ^ uint64(text[at])) * _PRIME
    return value ^ (value >> uint64(32))


@kernel(types.void, read(uint8), read(uint64), write(uint64))
def _hash_all(text, starts, hashes):  # type: ignore[no-untyped-def]
    for term in range(uint64(hashes.size)):
        hashes[term] = bytes_hash(text, starts[term], starts[term + _ONE])


@inline
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
def _find_all(query, query_starts, text, starts, table, ids):  # type: ignore[no-untyped-def]
    mask = uint64(table.size - 1)
    for number in range(uint64(ids.size)):
        begin, end = query_starts[number], query_starts[number + _ONE]
        slot = bytes_hash(query, begin, end) & mask
        while table[slot] != 0:
            term = uint64(table[slot]) - _ONE
            if same_bytes(query, begin, end, text, starts[term], starts[term + _ONE]):
                ids[number] = table[slot]
                break
            slot = (slot + _ONE) & mask
