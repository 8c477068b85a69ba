"""Turn segments back into conjunctions, without removed subscriptions: merging needs no query texts."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.index.layout import INLINE_TERMS, TERM_MASK
from tidings.index.segment import Segment
from tidings.jit import kernel, read, write
from tidings.query.conjunctions import Conjunctions
from tidings.query.residual import EMPTY_RESIDUAL, BaseResidual
from tidings.ragged import take_rows

_ONE = np.uint64(1)


def decompile(segment: Segment, removed: NDArray[np.uint8]) -> Conjunctions:
    """Return the conjunctions of the remaining subscriptions, which keep their numbers of the segment."""
    entry = np.repeat(np.arange(len(segment.second_term)), _lengths(segment.subscriber_start))
    remaining = np.flatnonzero(removed[segment.subscribers] == 0) if len(removed) else np.arange(len(entry))
    remaining = remaining[np.argsort(segment.subscribers[remaining], kind="stable")]
    entry, subscription = entry[remaining], segment.subscribers[remaining]
    starts, terms = _terms(segment)
    own_terms, own_starts = take_rows(terms, starts[:-1][entry], np.diff(starts)[entry])
    residual_of, residuals = _residuals(segment, entry)
    regions = segment.regions.reshape(-1, 4)
    anchor_region = np.full(len(segment.second_term), -1)
    anchor_region[len(anchor_region) - len(segment.entry_region) :] = segment.entry_region
    return Conjunctions(
        terms=own_terms,
        starts=own_starts,
        subscription=subscription,
        residual=residual_of[entry],
        residuals=residuals,
        regions=regions,
        anchor_region=anchor_region[entry],
    )


def _terms(segment: Segment) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return (where the terms of each entry start, all terms)."""
    anchor = np.zeros(len(segment.second_term), np.uint32)
    with_postings = np.repeat(segment.anchors, _lengths(segment.anchor_start))
    anchor[: len(with_postings)] = with_postings
    cell_anchors = (segment.cell_keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    anchor[segment.cell_postings[:, 1]] = np.repeat(cell_anchors, _lengths(segment.cell_start[::2]))
    more = np.zeros(len(anchor), np.uint32)
    first_codes = segment.residual_code[segment.residual_start[:-1]] if len(segment.residual_entries) else 0
    more[segment.residual_entries] = first_codes
    more_from = np.zeros(len(anchor), np.uint64)
    more_from[segment.residual_entries] = segment.residual_start[:-1] + _ONE
    starts = np.zeros(len(anchor) + 1, np.uint64)
    terms = np.empty(len(anchor) * INLINE_TERMS + int(more.sum()), np.uint32)
    inline = (anchor, segment.second_term, segment.third_fourth_term.ravel())
    _collect(*inline, more, more_from, segment.residual_code, starts, terms)
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
def _collect(anchor, second_term, third_fourth_term, more, more_from, code, starts, terms):  # type: ignore[no-untyped-def]
    used = uint64(0)
    for entry in range(uint64(anchor.size)):
        starts[entry] = used
        third = third_fourth_term[entry * uint64(2)]
        fourth = uint32(third_fourth_term[entry * uint64(2) + _ONE] & TERM_MASK)
        for term in (anchor[entry], second_term[entry], third, fourth):
            if term != 0:
                terms[used] = term
                used += _ONE
        for offset in range(uint64(more[entry])):
            terms[used] = code[more_from[entry] + offset]
            used += _ONE
    starts[uint64(anchor.size)] = used


def _residuals(segment: Segment, remaining: NDArray[np.int64]) -> tuple[NDArray[np.uint32], list[BaseResidual]]:
    """Return (the number of the base residual of each remaining entry, from 1; 0 for none; the residuals)."""
    numbers: dict[BaseResidual, int] = {}
    residual_of = np.zeros(len(segment.second_term), np.uint32)
    is_remaining = np.zeros(len(segment.second_term), bool)
    is_remaining[remaining] = True
    which = np.flatnonzero(is_remaining[segment.residual_entries])
    starts, ends = segment.residual_start[which].tolist(), segment.residual_start[which + 1].tolist()
    for entry, start, end in zip(segment.residual_entries[which].tolist(), starts, ends, strict=True):
        code = segment.residual_code[start:end].tolist()
        base = BaseResidual.decode(code[1 + code[0] :])
        if base != EMPTY_RESIDUAL:
            residual_of[entry] = numbers.setdefault(base, len(numbers) + 1)
    return residual_of, list(numbers)


def _lengths(starts: NDArray[np.uint32]) -> NDArray[np.int64]:
    wide = starts.astype(np.int64)
    return wide[1:] - wide[:-1]
