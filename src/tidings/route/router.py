"""Route: which matchers a post must reach. Only words that led a conjunction somewhere lead posts there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import CELLS, EVERYWHERE, cell_at, on_globe
from tidings.index.index import Index
from tidings.jit import inlined, kernel, read, write
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
        counts = np.zeros(self.matchers + 1, np.uint64)
        _route(received.terms, received.bounds, positions.ravel(), self._of_term, self._of_cell, bits, counts)
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(counts[:-1], dtype=np.uint64)])
        posts = np.empty(int(starts[-1]), np.uint32)
        _deal(bits, starts[:-1].copy(), posts)
        dealt = np.split(posts, starts[1:-1].astype(np.int64))
        return [self._share(matcher, mine, received) for matcher, mine in enumerate(dealt) if len(mine)]

    def _share(self, matcher: int, posts: NDArray[np.uint32], received: Received) -> Share:
        lengths = received.bounds[posts, 1] - received.bounds[posts, 0]
        terms = np.empty(int(lengths.sum()), np.uint32)
        starts = np.zeros(len(posts) + 1, np.uint32)
        _gather(received.terms, received.bounds, posts, self._matters, matcher, self._gaps_after, terms, starts)
        return Share(matcher, posts, terms[: starts[-1]], starts)


@inlined
def _lowest(word):  # type: ignore[no-untyped-def]
    """The number of the lowest bit that is set."""
    number = _ZERO
    while (word >> number) & _ONE == 0:
        number += _ONE
    return number


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(float64),
    read(uint64, 2),
    read(uint64, 2),
    write(uint64, 2),
    write(uint64),
)
def _route(terms, bounds, positions, of_term, of_cell, bits, counts):  # type: ignore[no-untyped-def]
    """Collect the matchers of every post and count the posts of every matcher."""
    width = uint64(bits.shape[1])
    for post in range(uint64(bounds.shape[0])):
        for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
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
                counts[word * uint64(64) + _lowest(left)] += _ONE
                left &= left - _ONE


@kernel(types.void, read(uint64, 2), write(uint64), write(uint32))
def _deal(bits, places, posts):  # type: ignore[no-untyped-def]
    """List the posts of every matcher, from `places` on."""
    for post in range(uint64(bits.shape[0])):
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + _lowest(left)
                posts[places[matcher]] = uint32(post)
                places[matcher] += _ONE
                left &= left - _ONE


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint64, 2),
    uint64,
    read(uint8),
    write(uint32),
    write(uint32),
)
def _gather(terms, bounds, posts, matters, matcher, gaps_after, chosen, starts):  # type: ignore[no-untyped-def]
    """Copy the terms of these posts that matter to a matcher; behind one of a phrase, the others leave a gap."""
    word, bit = matcher >> uint64(6), _ONE << (matcher & uint64(63))
    used = _ZERO
    for number in range(uint64(posts.size)):
        base = used
        post = uint64(posts[number])
        for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
            term = terms[at]
            if matters[uint64(term), word] & bit == 0:
                if used == base or gaps_after[uint64(chosen[used - _ONE])] == 0:
                    continue
                term = uint32(0)
            chosen[used] = term
            used += _ONE
        starts[number + _ONE] = uint32(used)
