"""Anchors: which posts a shard needs, and which of their terms.

A post that satisfies a conjunction contains its *anchor*, the term that fewest posts contain, and its other terms, the
companions. So a post is sent to a shard only if it contains an anchor together with a companion, and only with the
terms that are anchors or companions. Companions are stored as a *signature*: one of 256 bits per term. Two terms may
share a bit; then a post or a term is sent without need, but none is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write
from tidings.query.conjunctions import Conjunctions
from tidings.query.residual import BaseResidual

SIGNATURE_WORDS = 4  # 64-bit words of a signature

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NO_TERMS = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Anchors:
    """The anchor terms of a shard, ascending, and the signature of the companions of each.

    `region_only_signature` is the signature of the terms that conjunctions without an anchor need. `counts` is the
    number of conjunctions per anchor.
    """

    terms: NDArray[np.uint32]
    companion_signatures: NDArray[np.uint64]
    region_only_signature: NDArray[np.uint64]
    counts: NDArray[np.uint32]

    @classmethod
    def of(cls, conjunctions: Conjunctions, split_terms: NDArray[np.uint32] = _NO_TERMS) -> Anchors:
        """Return the anchors of conjunctions. `split_terms` are the hot terms that have splits, ascending."""
        anchors = anchor_terms(conjunctions, split_terms)
        terms, counts = np.unique(anchors[anchors > 0], return_counts=True)
        companions = np.zeros((len(terms), SIGNATURE_WORDS), np.uint64)
        region_only = np.zeros((1, SIGNATURE_WORDS), np.uint64)
        rows = np.searchsorted(terms, anchors).astype(np.uint32)
        residuals = _residual_signatures(conjunctions.residuals)
        entries = (conjunctions.terms, conjunctions.starts, anchors, rows, conjunctions.residual)
        _fill_signatures(*entries, residuals, companions, region_only)
        return cls(terms, companions, region_only, counts.astype(np.uint32))


def anchor_terms(conjunctions: Conjunctions, split_terms: NDArray[np.uint32] = _NO_TERMS) -> NDArray[np.uint32]:
    """Return the anchor of each conjunction: its first term, the first unsplit one if it has one; 0 without terms.

    The terms must be ordered (`Conjunctions.order_terms`).
    """
    anchors = np.zeros(len(conjunctions), np.uint32)
    with_terms = np.flatnonzero(conjunctions.starts[:-1] < conjunctions.starts[1:])
    first = conjunctions.starts[with_terms].astype(np.int64)
    if len(split_terms) and len(first):
        is_split = np.isin(conjunctions.terms, split_terms).astype(np.int64)
        first = np.minimum.reduceat(np.arange(len(is_split)) | is_split << 32, first) & 0xFFFFFFFF
    anchors[with_terms] = conjunctions.terms[first]
    return anchors


@inline
def signature_bit(term):  # type: ignore[no-untyped-def]
    """Return the number of the bit of a term, of 256."""
    return (uint64(term) * _MIX) >> uint64(56)


@inline
def signature_word(term):  # type: ignore[no-untyped-def]
    """Return the number of the 64-bit word that has the bit of a term."""
    return signature_bit(term) >> uint64(6)


@inline
def signature_mask(term):  # type: ignore[no-untyped-def]
    """Return the bit of a term within its 64-bit word."""
    return _ONE << (signature_bit(term) & uint64(63))


@inline
def post_signature(terms, start, end):  # type: ignore[no-untyped-def]
    """Return the four words of the signature of all terms of a post."""
    first, second, third, fourth = _ZERO, _ZERO, _ZERO, _ZERO
    for at in range(start, end):
        word, bit = signature_word(terms[at]), signature_mask(terms[at])
        first |= bit if word == 0 else _ZERO
        second |= bit if word == 1 else _ZERO
        third |= bit if word == 2 else _ZERO
        fourth |= bit if word == 3 else _ZERO
    return first, second, third, fourth


def _residual_signatures(residuals: Sequence[BaseResidual]) -> NDArray[np.uint64]:
    """Return the signature of the terms of each residual; residuals are numbered from 1, 0 means none."""
    signatures = np.zeros((len(residuals) + 1, SIGNATURE_WORDS), np.uint64)
    for number, residual in enumerate(residuals, 1):
        _add_terms(np.array(sorted(residual.terms()), np.uint32), signatures[number])
    return signatures


@kernel(types.void, read(uint32), write(uint64))
def _add_terms(terms, signature):  # type: ignore[no-untyped-def]
    for at in range(uint64(terms.size)):
        signature[signature_word(terms[at])] |= signature_mask(terms[at])


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
def _fill_signatures(terms, starts, anchors, rows, residual, residuals, companions, region_only):  # type: ignore[no-untyped-def]
    for number in range(uint64(anchors.size)):
        first, last = starts[number], starts[number + _ONE]
        row, needs = uint64(rows[number]), uint64(residual[number])
        if first == last:
            for word in range(uint64(SIGNATURE_WORDS)):
                region_only[_ZERO, word] |= residuals[needs, word]
            continue
        is_alone = True
        for at in range(first, last):
            if terms[at] != anchors[number]:
                companions[row, signature_word(terms[at])] |= signature_mask(terms[at])
                is_alone = False
        if is_alone:  # the only term is its own companion
            companions[row, signature_word(anchors[number])] |= signature_mask(anchors[number])
        for word in range(uint64(SIGNATURE_WORDS)):
            companions[row, word] |= residuals[needs, word]
