"""Which posts a shard must see, and which of their words: by the rarest word of each conjunction and its companions.

Whatever satisfies a conjunction says its rarest word, its *lead*, and the other words it asks for, its companions. So a
post goes to a shard only for a lead that it says together with a companion, and brings only leads and companions.
Companions are kept as a *signature*: one of 256 bits for each word. Two words may share a bit; then a post, or a word
of it, is sent in vain, never the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write
from tidings.query.conjunctions import Conjunctions
from tidings.query.residual import BaseProgram

WORDS = 4  # 64-bit words of a signature

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Leads:
    """The leads of a shard, ascending; the signature of the companions of each; that of what regions alone lead to.

    `counts` says to how many conjunctions each leads.
    """

    leads: NDArray[np.uint32]
    companions: NDArray[np.uint64]
    wordless: NDArray[np.uint64]
    counts: NDArray[np.uint32]

    @classmethod
    def of(cls, conjunctions: Conjunctions, split: NDArray[np.uint32] = _NONE) -> Leads:
        """`split` are the hot words that have several versions, ascending."""
        own = lead_terms(conjunctions, split)
        leads, counts = np.unique(own[own > 0], return_counts=True)
        companions, wordless = np.zeros((len(leads), WORDS), np.uint64), np.zeros((1, WORDS), np.uint64)
        rows = np.searchsorted(leads, own).astype(np.uint32)
        programs = _signatures(conjunctions.programs)
        _sign(conjunctions.terms, conjunctions.starts, own, rows, conjunctions.program, programs, companions, wordless)
        return cls(leads, companions, wordless, counts.astype(np.uint32))


def lead_terms(conjunctions: Conjunctions, split: NDArray[np.uint32] = _NONE) -> NDArray[np.uint32]:
    """The rarest word of each conjunction that is not split; of one with no other words the rarest; 0 without words."""
    rank = conjunctions.terms.astype(np.int64)
    if len(split):
        rank -= np.isin(conjunctions.terms, split).astype(np.int64) << 32
    leads = np.zeros(len(conjunctions), np.uint32)
    with_words = np.flatnonzero(conjunctions.starts[:-1] < conjunctions.starts[1:])
    if len(with_words):
        leads[with_words] = np.maximum.reduceat(rank, conjunctions.starts[with_words].astype(np.int64)) & 0xFFFFFFFF
    return leads


@inlined
def place_of(term):  # type: ignore[no-untyped-def]
    """The place of a term in a signature, of 256."""
    return (uint64(term) * _MIX) >> uint64(56)


@inlined
def word_of(term):  # type: ignore[no-untyped-def]
    """The word of a signature that has the bit of a term."""
    return place_of(term) >> uint64(6)


@inlined
def bit_of(term):  # type: ignore[no-untyped-def]
    return _ONE << (place_of(term) & uint64(63))


@inlined
def signature_of(terms, start, end):  # type: ignore[no-untyped-def]
    """The signature of all words of a post."""
    first, second, third, fourth = _ZERO, _ZERO, _ZERO, _ZERO
    for at in range(start, end):
        word, bit = word_of(terms[at]), bit_of(terms[at])
        first |= bit if word == 0 else _ZERO
        second |= bit if word == 1 else _ZERO
        third |= bit if word == 2 else _ZERO
        fourth |= bit if word == 3 else _ZERO
    return first, second, third, fourth


def _signatures(programs: Sequence[BaseProgram]) -> NDArray[np.uint64]:
    """The signature of the words each program looks at; programs are numbered from 1, 0 is none."""
    found = np.zeros((len(programs) + 1, WORDS), np.uint64)
    for number, program in enumerate(programs, 1):
        _add(np.array(sorted(program.terms()), np.uint32), found[number])
    return found


@kernel(types.void, read(uint32), write(uint64))
def _add(terms, signature):  # type: ignore[no-untyped-def]
    for at in range(uint64(terms.size)):
        signature[word_of(terms[at])] |= bit_of(terms[at])


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint32),
    read(uint32),
    read(uint32),
    read(uint64, 2),
    write(uint64, 2),
    write(uint64, 2),
)
def _sign(terms, starts, own, rows, program, programs, companions, wordless):  # type: ignore[no-untyped-def]
    for number in range(uint64(own.size)):
        first, last = starts[number], starts[number + _ONE]
        row, needs = uint64(rows[number]), uint64(program[number])
        if first == last:
            for word in range(uint64(WORDS)):
                wordless[_ZERO, word] |= programs[needs, word]
            continue
        alone = True
        for at in range(first, last):
            if terms[at] != own[number]:
                companions[row, word_of(terms[at])] |= bit_of(terms[at])
                alone = False
        if alone:  # nothing else is asked for: the lead is company enough
            companions[row, word_of(own[number])] |= bit_of(own[number])
        for word in range(uint64(WORDS)):
            companions[row, word] |= programs[needs, word]
