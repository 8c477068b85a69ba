"""Segments back to conjunctions, without what was removed: how segments are merged without the queries' text."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.index.layout import INLINE_TERMS, TERM_MASK
from tidings.index.segment import Segment
from tidings.jit import kernel, read, write
from tidings.query.conjunctions import Conjunctions
from tidings.query.residual import BaseProgram
from tidings.ragged import take_rows

_ONE = np.uint64(1)
_NO_PROGRAM = BaseProgram((), (), ())


def decompile(segment: Segment, removed: NDArray[np.uint8]) -> Conjunctions:
    """The conjunctions of the subscriptions still there; owners keep their place in the segment."""
    entry = np.repeat(np.arange(len(segment.second)), _lengths(segment.holder_start))
    alive = np.flatnonzero(removed[segment.holders] == 0) if len(removed) else np.arange(len(entry))
    alive = alive[np.argsort(segment.holders[alive], kind="stable")]
    entry, owner = entry[alive], segment.holders[alive]
    starts, terms = _terms(segment)
    owned_terms, owned_starts = take_rows(terms, starts[:-1][entry], np.diff(starts)[entry])
    program_of, programs = _programs(segment, entry)
    program = program_of[entry]
    regions = segment.regions.reshape(-1, 4)
    anchors = np.full(len(segment.second), -1)
    anchors[len(anchors) - len(segment.asked) :] = segment.asked
    return Conjunctions(owned_terms, owned_starts, owner, program, programs, regions, anchors[entry])


def _terms(segment: Segment) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """All terms of every entry, as (where they start, the terms)."""
    key = np.zeros(len(segment.second), np.uint32)
    keyed = np.repeat(segment.keys, _lengths(segment.key_start))
    key[: len(keyed)] = keyed
    words = (segment.cell_keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    key[segment.cell_items[:, 1]] = np.repeat(words, _lengths(segment.cell_start[::2]))
    more = np.zeros(len(key), np.uint32)
    more[segment.programmed] = segment.code[segment.program_start[:-1]] if len(segment.programmed) else 0
    more_from = np.zeros(len(key), np.uint64)
    more_from[segment.programmed] = segment.program_start[:-1] + _ONE
    starts = np.zeros(len(key) + 1, np.uint64)
    terms = np.empty(len(key) * INLINE_TERMS + int(more.sum()), np.uint32)
    _collect(key, segment.second, segment.rest.ravel(), more, more_from, segment.code, starts, terms)
    return starts, terms[: int(starts[-1])]


@kernel(
    types.void,
    read(uint32),
    read(uint32),
    read(uint32),
    read(uint32),
    read(uint64),
    read(uint32),
    write(uint64),
    write(uint32),
)
def _collect(key, second, rest, more, more_from, code, starts, terms):  # type: ignore[no-untyped-def]
    used = uint64(0)
    for entry in range(uint64(key.size)):
        starts[entry] = used
        third, fourth = rest[entry * uint64(2)], uint32(rest[entry * uint64(2) + _ONE] & TERM_MASK)
        for term in (key[entry], second[entry], third, fourth):
            if term != 0:
                terms[used] = term
                used += _ONE
        for offset in range(uint64(more[entry])):
            terms[used] = code[more_from[entry] + offset]
            used += _ONE
    starts[uint64(key.size)] = used


def _programs(segment: Segment, alive: NDArray[np.int64]) -> tuple[NDArray[np.uint32], list[BaseProgram]]:
    """(the number of each living entry's base program, from 1 on, 0 for none; the programs)."""
    numbers: dict[BaseProgram, int] = {}
    program_of = np.zeros(len(segment.second), np.uint32)
    is_alive = np.zeros(len(segment.second), bool)
    is_alive[alive] = True
    which = np.flatnonzero(is_alive[segment.programmed])
    starts, ends = segment.program_start[which].tolist(), segment.program_start[which + 1].tolist()
    for entry, start, end in zip(segment.programmed[which].tolist(), starts, ends, strict=True):
        code = segment.code[start:end].tolist()
        base = BaseProgram.read(code[1 + code[0] :])
        if base != _NO_PROGRAM:
            program_of[entry] = numbers.setdefault(base, len(numbers) + 1)
    return program_of, list(numbers)


def _lengths(starts: NDArray[np.uint32]) -> NDArray[np.int64]:
    wide = starts.astype(np.int64)
    return wide[1:] - wide[:-1]
