"""Route: which matchers a post must reach, and with which of its words. `index/lead.py` says when it must."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import CELLS, cell_at, degree_cells, on_globe
from tidings.index.reader import Index, LiveSegment
from tidings.jit import inlined, kernel, read, write
from tidings.plan.hot_splits import version_of
from tidings.query import anchors
from tidings.query.anchors import WORDS, bit_of, place_of, signature_of, word_of
from tidings.routing.shed import Shed, Withheld, withhold
from tidings.routing.shed_value import within_reach
from tidings.text.analyzer import Received
from tidings.text.byte_masks import lowest_bit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_SHED_NOTHING = Shed()


@dataclass(frozen=True, slots=True)
class Share:
    """What one matcher gets of a batch: some posts, each with the terms that matter to this matcher."""

    matcher: int
    posts: NDArray[np.uint32]
    terms: NDArray[np.uint32]
    starts: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Routed:
    """The shares of a batch, and what was withheld from matchers; None where nothing is shed.

    ``spread[n]`` posts would go to `n` matchers if nothing was shed. `cells` are those of the posts on the grid of a
    space plan; None where words alone decide.
    """

    shares: list[Share]
    withheld: Withheld | None
    spread: NDArray[np.int64]
    cells: NDArray[np.uint32] | None = None


class Router:
    """For every term, and every cell of the globe, the set of matchers it leads to, as bits."""

    def __init__(self, index: Index) -> None:
        self.matchers = len(index.manifest.shards)
        self._width = (self.matchers + 63) // 64
        self._of_term = np.zeros((index.manifest.terms + 1, self._width), np.uint64)
        self._of_cell = np.zeros((0, self._width), np.uint64)
        self._matters = np.zeros((index.manifest.terms + 1, self._width), np.uint64)
        self._companions = np.zeros((index.manifest.terms + 1, anchors.WORDS), np.uint64)
        self._always = np.zeros((self.matchers, anchors.WORDS), np.uint64)  # needed by what a position leads to
        self._counts = np.zeros(index.manifest.terms + 1, np.uint32)  # to how many subscriptions a lead leads
        self._is_split = np.zeros(index.manifest.terms + 1, np.uint8)
        self._gaps_after = index.phrase_terms()
        for matcher in range(self.matchers):
            for live in index.shard(matcher):
                self._add(live, matcher)

    def _add(self, live: LiveSegment, matcher: int) -> None:
        self._lead(self._of_term, live.leads.leads, matcher)
        self._lead(self._matters, live.words, matcher)
        self._is_split[live.split] = 1
        self._counts[live.leads.leads] += live.leads.counts
        self._companions[live.leads.leads] |= live.leads.companions
        self._always[matcher] |= live.leads.wordless[0]
        keys = live.segment.cell_keys
        wordless = keys[keys & np.uint64(0xFFFFFFFF) == 0] >> np.uint64(32)
        if len(wordless):
            self._lead_cells(degree_cells(wordless), matcher)

    def _lead_cells(self, cells: NDArray[np.int64], matcher: int) -> None:
        if not len(self._of_cell):
            self._of_cell = np.zeros((CELLS, self._width), np.uint64)
        self._lead(self._of_cell, cells, matcher)

    @staticmethod
    def _lead(table: NDArray[np.uint64], places: NDArray[np.integer], matcher: int) -> None:
        table[places, matcher // 64] |= np.uint64(1 << (matcher % 64))

    def route(self, received: Received, positions: NDArray[np.float64], shed: Shed = _SHED_NOTHING) -> Routed:
        """The share of every matcher that is sent anything of a batch, and what was withheld from whom."""
        bits = np.zeros((len(received), self._width), np.uint64)
        posts = (received.terms, received.bounds)
        active = np.empty(len(received.terms), np.uint32)
        leads = (self._of_term, self._is_split, self._of_cell, self._companions)
        _route(*posts, positions.ravel(), *leads, active, bits)
        spread = spread_of(bits, self.matchers)
        withheld = self._withhold(shed, received, active, bits) if shed.is_on else None
        room = np.zeros((2, self.matchers + 1), np.uint64)
        _count_room(received.bounds, bits, room)
        places = np.concatenate([np.zeros((2, 1), np.uint64), np.cumsum(room, axis=1, dtype=np.uint64)], axis=1)
        dealt = np.empty((2, int(places[0, -1])), np.uint32)
        terms = np.empty(int(places[1, -1]), np.uint32)
        ends = places.copy()
        needed = self._always.copy()
        longest = int((received.bounds[:, 1] - received.bounds[:, 0]).max(initial=0))
        leading = (active, bits, self._of_term, self._companions, self._always, self._matters, self._gaps_after)
        _deal(*posts, *leading, needed, np.empty((longest, 2), np.uint64), ends, dealt, terms)
        shares = [self._share(matcher, places, ends, dealt, terms) for matcher in np.flatnonzero(room[0]).tolist()]
        return Routed(shares, withheld, spread)

    def _withhold(
        self, shed: Shed, received: Received, active: NDArray[np.uint32], bits: NDArray[np.uint64]
    ) -> Withheld:
        worth = np.ones(len(active), np.uint64)
        if shed.policy == "subscription":
            within_reach(received.terms, received.bounds, active, self._companions, self._counts, worth)
        return withhold(shed, active, received.bounds, self._of_term, worth, bits, self._is_split)

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


def spread_of(bits: NDArray[np.uint64], matchers: int) -> NDArray[np.int64]:
    """How many posts go to 0, 1, 2, … matchers."""
    return np.bincount(np.bitwise_count(bits).sum(axis=1, dtype=np.int64), minlength=matchers + 1)


@inlined
def _in_company(companions, term, said):  # type: ignore[no-untyped-def]
    """Whether any companion of a lead may be among the words said."""
    first, second, third, fourth = said
    found = (companions[term, _ZERO] & first) | (companions[term, _ONE] & second)
    found |= (companions[term, uint64(2)] & third) | (companions[term, uint64(3)] & fourth)
    return found != 0


@inlined
def _one_version(of_term, term, post, bits):  # type: ignore[no-untyped-def]
    """Lead a post to one of the matchers of a word that is split; any of them finds what the word leads to."""
    versions = _ZERO
    for word in range(uint64(of_term.shape[1])):
        left = of_term[term, word]
        while left != 0:
            versions += _ONE
            left &= left - _ONE
    if versions == 0:
        return
    wanted = version_of(post, term, versions)
    for word in range(uint64(of_term.shape[1])):
        left = of_term[term, word]
        while left != 0:
            if wanted == 0:
                bits[post, word] |= left & (~left + _ONE)
                return
            wanted -= _ONE
            left &= left - _ONE


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(float64),
    read(uint64, 2),
    read(uint8),
    read(uint64, 2),
    read(uint64, 2),
    write(uint32),
    write(uint64, 2),
)
def _route(terms, bounds, positions, of_term, is_split, of_cell, companions, active, bits):  # type: ignore[no-untyped-def]
    """Collect the matchers of every post.

    `active` gets the leads of every post that are in company, from where its terms begin, with a 0 behind them.
    """
    width = uint64(bits.shape[1])
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        said = signature_of(terms, start, end)
        used = start
        for at in range(start, end):
            term = uint64(terms[at])
            active[used] = terms[at]
            used += uint64(_in_company(companions, term, said))
        for at in range(start, used):
            if is_split[uint64(active[at])] != 0:
                _one_version(of_term, uint64(active[at]), post, bits)
                continue
            for word in range(width):
                bits[post, word] |= of_term[uint64(active[at]), word]
        if used < end:
            active[used] = uint32(0)
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        if of_cell.shape[0] > 0 and on_globe(lon, lat):
            cell = cell_at(lon, lat)
            for word in range(width):
                bits[post, word] |= of_cell[cell, word]


@kernel(types.void, read(uint32, 2), read(uint64, 2), write(uint64, 2))
def _count_room(bounds, bits, room):  # type: ignore[no-untyped-def]
    """Count, for every matcher, its posts and the most terms they can have."""
    for post in range(uint64(bounds.shape[0])):
        length = uint64(bounds[post, _ONE]) - uint64(bounds[post, _ZERO])
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                room[_ZERO, matcher] += _ONE
                room[_ONE, matcher] += length
                left &= left - _ONE


@inlined
def _need(active, start, end, word, here, of_term, companions, needed):  # type: ignore[no-untyped-def]
    """Add to what the matchers it goes to need of a post: its active leads, and the companions of these."""
    for at in range(start, end):
        term = uint64(active[at])
        if term == 0:
            break
        left = of_term[term, word] & here
        while left != 0:
            matcher = word * uint64(64) + lowest_bit(left)
            for part in range(uint64(WORDS)):
                needed[matcher, part] |= companions[term, part]
            needed[matcher, word_of(term)] |= bit_of(term)
            left &= left - _ONE


@inlined
def _look_up(terms, start, end, word, here, matters, gaps_after, looked_up):  # type: ignore[no-untyped-def]
    """Of every term of a post: which of its matchers it matters to; its bit in a signature; whether gaps follow it."""
    for at in range(start, end):
        term = uint64(terms[at])
        looked_up[at - start, _ZERO] = matters[term, word] & here
        looked_up[at - start, _ONE] = place_of(term) | uint64(gaps_after[term]) << uint64(8)


@inlined
def _choose(terms, start, end, place, needs, looked_up, chosen, used):  # type: ignore[no-untyped-def]
    """Write the terms of a post that one matcher needs; others leave a gap behind a phrase word.

    Every term is written, and the next over it if it was not wanted: which are, no processor can foretell.
    """
    gap = _ZERO
    for at in range(start, end):
        matters_to, about = looked_up[at - start, _ZERO], looked_up[at - start, _ONE]
        wanted = (matters_to >> place) & (needs[(about >> uint64(6)) & uint64(3)] >> (about & uint64(63))) & _ONE
        chosen[used] = terms[at] * uint32(wanted)
        used += wanted | gap
        gap = wanted & (about >> uint64(8))
    return used


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint64, 2),
    read(uint64, 2),
    read(uint64, 2),
    read(uint64, 2),
    read(uint64, 2),
    read(uint8),
    write(uint64, 2),
    write(uint64, 2),
    write(uint64, 2),
    write(uint32, 2),
    write(uint32),
)
def _deal(  # type: ignore[no-untyped-def]
    terms, bounds, active, bits, of_term, companions, always, matters, gaps_after, needed, looked_up, places, dealt, out
):
    """Give every matcher its posts and, of each, the terms it needs.

    `places` says from where on the posts and the terms of a matcher are written, and ends up saying up to where.
    `dealt` gets each post and where its terms end. `needed` starts as `always`, and is so again behind every post.
    `looked_up` is scratch space for the terms of a post.
    """
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            if left == 0:
                continue
            _need(active, start, end, word, left, of_term, companions, needed)
            _look_up(terms, start, end, word, left, matters, gaps_after, looked_up)
            while left != 0:
                place = lowest_bit(left)
                matcher = word * uint64(64) + place
                used = _choose(terms, start, end, place, needed[matcher], looked_up, out, places[_ONE, matcher])
                at = places[_ZERO, matcher]
                dealt[_ZERO, at], dealt[_ONE, at] = uint32(post), uint32(used)
                places[_ZERO, matcher], places[_ONE, matcher] = at + _ONE, used
                for part in range(uint64(WORDS)):
                    needed[matcher, part] = always[matcher, part]
                left &= left - _ONE
