"""Route: which matchers a post must reach. Only words that led a conjunction somewhere lead posts there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import CELLS, EVERYWHERE, cell_at, on_globe
from tidings.index.index import Index
from tidings.jit import inlined, kernel, read, write
from tidings.receive.marks import lowest_bit
from tidings.receive.receiver import Received

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Share:
    """What one matcher gets of a batch: some posts, each with the terms that matter to this matcher."""

    matcher: int
    posts: NDArray[np.uint32]
    terms: NDArray[np.uint32]
    starts: NDArray[np.uint32]


class Router:
    """For every term, and every cell of the globe, the set of matchers it leads to, as bits."""

    def __init__(self, index: Index) -> None:
        self.matchers = len(index.manifest.shards)
        self._width = (self.matchers + 63) // 64
        self._of_term = np.zeros((index.manifest.terms + 1, self._width), np.uint64)
        self._of_cell = np.zeros((0, self._width), np.uint64)
        self._matters = np.zeros((index.manifest.terms + 1, self._width), np.uint64)
        self._gaps_after = index.phrase_terms()
        for matcher in range(self.matchers):
            for live in index.shard(matcher):
                self._lead(self._of_term, live.leads, matcher)
                self._lead(self._matters, live.words, matcher)
                if len(live.segment.cell_start):
                    self._lead_cells(np.flatnonzero(np.diff(live.segment.cell_start)), matcher)

    def _lead_cells(self, cells: NDArray[np.intp], matcher: int) -> None:
        if not len(self._of_cell):
            self._of_cell = np.zeros((CELLS + 1, self._width), np.uint64)
        self._lead(self._of_cell, cells, matcher)

    @staticmethod
    def _lead(table: NDArray[np.uint64], places: NDArray[np.integer], matcher: int) -> None:
        table[places, matcher // 64] |= np.uint64(1 << (matcher % 64))

    def route(self, received: Received, positions: NDArray[np.float64]) -> list[Share]:
        """The share of every matcher that must see anything of a batch."""
        bits = np.zeros((len(received), self._width), np.uint64)
        room = np.zeros((2, self.matchers + 1), np.uint64)
        _route(received.terms, received.bounds, positions.ravel(), self._of_term, self._of_cell, bits, room)
        places = np.concatenate([np.zeros((2, 1), np.uint64), np.cumsum(room, axis=1, dtype=np.uint64)], axis=1)
        dealt = np.empty((2, int(places[0, -1])), np.uint32)
        terms = np.empty(int(places[1, -1]), np.uint32)
        ends = places.copy()
        _deal(received.terms, received.bounds, bits, self._matters, self._gaps_after, ends, dealt, terms)
        return [self._share(matcher, places, ends, dealt, terms) for matcher in np.flatnonzero(room[0]).tolist()]

    @staticmethod
    def _share(
        matcher: int,
        places: NDArray[np.uint64],
        ends: NDArray[np.uint64],
        dealt: NDArray[np.uint32],
        terms: NDArray[np.uint32],
    ) -> Share:
        (first, base), (last, end) = places[:, matcher].tolist(), ends[:, matcher].tolist()
        starts = np.concatenate([np.zeros(1, np.uint32), dealt[1, first:last] - np.uint32(base)])
        return Share(matcher, dealt[0, first:last], terms[base:end], starts)


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(float64),
    read(uint64, 2),
    read(uint64, 2),
    write(uint64, 2),
    write(uint64, 2),
)
def _route(terms, bounds, positions, of_term, of_cell, bits, room):  # type: ignore[no-untyped-def]
    """Collect the matchers of every post; count, for every matcher, its posts and the most terms they can have."""
    width = uint64(bits.shape[1])
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        for at in range(start, end):
            for word in range(width):
                bits[post, word] |= of_term[uint64(terms[at]), word]
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        if of_cell.shape[0] > 0 and on_globe(lon, lat):
            cell = cell_at(lon, lat)
            for word in range(width):
                bits[post, word] |= of_cell[cell, word] | of_cell[uint64(EVERYWHERE), word]
        for word in range(width):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                room[_ZERO, matcher] += _ONE
                room[_ONE, matcher] += end - start
                left &= left - _ONE


@inlined
def _append(term, left, word, places, chosen):  # type: ignore[no-untyped-def]
    """Give a term to all matchers whose bits are left."""
    while left != 0:
        matcher = word * uint64(64) + lowest_bit(left)
        chosen[places[_ONE, matcher]] = term
        places[_ONE, matcher] += _ONE
        left &= left - _ONE


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint64, 2),
    read(uint64, 2),
    read(uint8),
    write(uint64, 2),
    write(uint32, 2),
    write(uint32),
)
def _deal(terms, bounds, bits, matters, gaps_after, places, dealt, chosen):  # type: ignore[no-untyped-def]
    """Give every matcher its posts and, of each, the terms that matter there; others leave a gap behind a phrase word.

    `places` says from where on the posts and the terms of a matcher are written, and ends up saying up to where.
    `dealt` gets each post and where its terms end.
    """
    for post in range(uint64(bounds.shape[0])):
        for word in range(uint64(bits.shape[1])):
            here = bits[post, word]
            if here == 0:
                continue
            in_phrase = _ZERO  # the matchers that got a word of a phrase last
            for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
                term = uint64(terms[at])
                wanted = matters[term, word] & here
                _append(uint32(0), in_phrase & ~wanted, word, places, chosen)
                _append(uint32(term), wanted, word, places, chosen)
                in_phrase = wanted if gaps_after[term] != 0 else _ZERO
            left = here
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                at = places[_ZERO, matcher]
                dealt[_ZERO, at], dealt[_ONE, at] = uint32(post), uint32(places[_ONE, matcher])
                places[_ZERO, matcher] += _ONE
                left &= left - _ONE
