"""Random anycast: a conjunction goes to any one of the matchers responsible for its words, each as likely.

The conjunctions of one subscription go to the same matcher where they have a word in common: then nobody else can find
the subscription, and its hits need no merging.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import types, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.index.conjunctions import Conjunctions
from tidings.jit import inlined, kernel, read, write

_ONE = np.uint64(1)


def place_at_random(
    conjunctions: Conjunctions, matcher_of: NDArray[np.uint16], matchers: int, seed: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    """(the matcher of each conjunction, the word that leads posts there: 0 for those found by region).

    `matcher_of` is indexed by term number. The same seed places the same conjunctions alike.
    """
    chosen = np.empty(len(conjunctions), np.uint16)
    leads = np.zeros(len(conjunctions), np.uint32)
    draws = np.random.default_rng(seed).integers(0, 1 << 62, len(conjunctions), dtype=np.uint64)
    _place(conjunctions.terms, conjunctions.starts, matcher_of, draws, chosen, leads)
    wordless = conjunctions.starts[:-1] == conjunctions.starts[1:]
    chosen[wordless] = draws[wordless] % np.uint64(matchers)
    for rows in _alternatives(conjunctions.owner):
        common = _common_terms(conjunctions, rows)
        if len(common):
            leads[rows] = common[draws[rows[0]] % np.uint64(len(common))]
            chosen[rows] = matcher_of[leads[rows]]
    return chosen, leads


def _alternatives(owner: NDArray[np.uint32]) -> Iterator[NDArray[np.intp]]:
    """The conjunctions of each owner that has several; those of one owner stand together."""
    first = np.flatnonzero(np.diff(owner, prepend=owner[:1] + np.uint32(1)))
    sizes = np.diff(first, append=len(owner))
    for start, size in zip(first[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        yield np.arange(start, start + size)


def _common_terms(conjunctions: Conjunctions, rows: NDArray[np.intp]) -> NDArray[np.uint32]:
    terms, starts = conjunctions.terms, conjunctions.starts
    common = set(terms[starts[rows[0]] : starts[rows[0] + 1]].tolist())
    for row in rows[1:]:
        common &= set(terms[starts[row] : starts[row + 1]].tolist())
    return np.array(sorted(common), np.uint32)


@inlined
def _is_first(terms, first, at, matcher_of):  # type: ignore[no-untyped-def]
    """1 when no word before this one has the same matcher, so that every matcher is as likely; else 0."""
    for before in range(first, at):
        if matcher_of[uint64(terms[before])] == matcher_of[uint64(terms[at])]:
            return uint64(0)
    return _ONE


@kernel(types.void, read(uint32), read(uint64), read(uint16), read(uint64), write(uint16), write(uint32))
def _place(terms, starts, matcher_of, draws, chosen, leads):  # type: ignore[no-untyped-def]
    for number in range(uint64(chosen.size)):
        first, last = starts[number], starts[number + _ONE]
        if first == last:
            continue
        distinct = uint64(0)
        for at in range(first, last):
            distinct += _is_first(terms, first, at, matcher_of)
        wanted = draws[number] % distinct
        for at in range(first, last):
            if _is_first(terms, first, at, matcher_of) != 0:
                if wanted == 0:
                    chosen[number] = matcher_of[uint64(terms[at])]
                    leads[number] = terms[at]
                    break
                wanted -= _ONE
