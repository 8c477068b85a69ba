"""Routing: which matchers a post must reach, and with which of its terms. `query/anchors.py` defines the anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import float64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import CELLS, cell_at, degree_cells, on_globe
from tidings.index.reader import Index, SegmentView
from tidings.jit import inline, kernel, read, write
from tidings.plan.hot_splits import split_of
from tidings.query import anchors
from tidings.query.anchors import SIGNATURE_WORDS, post_signature, signature_bit, signature_mask, signature_word
from tidings.ragged import take_rows
from tidings.routing.anchor_holders import AnchorHolders
from tidings.routing.shed import ShedDecision, ShedPostCounts, keep_distinct, shed_posts
from tidings.routing.shed_value import match_potential
from tidings.text.analyzer import AnalyzedBatch
from tidings.text.byte_masks import lowest_bit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NO_SHEDDING = ShedDecision()


@dataclass(frozen=True, slots=True)
class MatcherBatch:
    """The posts of a batch for one matcher, each with the terms that this matcher needs.

    `COMPANION` flags a term that another matcher is responsible for, or that is no active anchor: the matcher needs it,
    but not its posting list. So a match is not found twice because several matchers have a copy of the subscription.
    """

    matcher: int
    posts: NDArray[np.uint32]
    terms: NDArray[np.uint32]
    starts: NDArray[np.uint32]

    def select(self, rows: NDArray[np.intp]) -> MatcherBatch:
        """Return some of the posts."""
        terms, starts = take_rows(self.terms, self.starts[:-1][rows], np.diff(self.starts)[rows])
        return MatcherBatch(self.matcher, self.posts[rows], terms, starts.astype(np.uint32))


@dataclass(frozen=True, slots=True)
class RoutedBatch:
    """The batches of all matchers, and what was shed; None without shedding.

    ``spread[n]`` posts reach `n` matchers without shedding. `cells` has the cell of each post on the grid of a spatial
    plan; None for word plans.
    """

    batches: list[MatcherBatch]
    shed: ShedPostCounts | None
    spread: NDArray[np.int64]
    cells: NDArray[np.uint32] | None = None


class Router:
    """Routes by word plan: a bitmap of matchers for every term and every cell of the globe."""

    def __init__(self, index: Index) -> None:
        self.matchers = len(index.manifest.shards)
        self._width = (self.matchers + 63) // 64
        self._matchers_of_term = np.zeros((index.manifest.terms + 1, self._width), np.uint64)
        self._matchers_of_cell = np.zeros((0, self._width), np.uint64)
        self._is_used = np.zeros((index.manifest.terms + 1, self._width), np.uint64)
        self._companions = np.zeros((index.manifest.terms + 1, anchors.SIGNATURE_WORDS), np.uint64)
        self._always = np.zeros((self.matchers, anchors.SIGNATURE_WORDS), np.uint64)  # terms of entries without anchor
        self._anchors: list[tuple[int, NDArray[np.uint32], NDArray[np.uint32]]] = []  # of segments, with their counts
        self._is_split = np.zeros(index.manifest.terms + 1, np.uint8)
        self._gaps_after = index.phrase_terms()
        for matcher in range(self.matchers):
            for view in index.open_shard(matcher):
                self._add(view, matcher)

    def _add(self, view: SegmentView, matcher: int) -> None:
        self._set_bits(self._matchers_of_term, view.anchors.terms, matcher)
        self._set_bits(self._is_used, view.terms, matcher)
        self._is_split[view.split_terms] = 1
        self._anchors.append((matcher, view.anchors.terms, view.anchors.counts))
        self._companions[view.anchors.terms] |= view.anchors.companion_signatures
        self._always[matcher] |= view.anchors.region_only_signature[0]
        keys = view.segment.cell_keys
        without_term = keys[keys & np.uint64(0xFFFFFFFF) == 0] >> np.uint64(32)
        if len(without_term):
            self._add_cells(degree_cells(without_term), matcher)

    def _add_cells(self, cells: NDArray[np.int64], matcher: int) -> None:
        if not len(self._matchers_of_cell):
            self._matchers_of_cell = np.zeros((CELLS, self._width), np.uint64)
        self._set_bits(self._matchers_of_cell, cells, matcher)

    @staticmethod
    def _set_bits(table: NDArray[np.uint64], rows: NDArray[np.integer], matcher: int) -> None:
        table[rows, matcher // 64] |= np.uint64(1 << (matcher % 64))

    def route(
        self, batch: AnalyzedBatch, positions: NDArray[np.float64], shed: ShedDecision = _NO_SHEDDING
    ) -> RoutedBatch:
        """Return the posts of every matcher that receives any, and the counts of what was shed."""
        bits = np.zeros((len(batch), self._width), np.uint64)
        posts, hashes = (batch.terms, batch.bounds), batch.content_hashes()
        active = np.empty(len(batch.terms), np.uint32)
        tables = (self._matchers_of_term, self._is_split, self._matchers_of_cell, self._companions)
        _route(*posts, positions.ravel(), hashes, *tables, active, bits)
        spread = count_spread(bits, self.matchers)
        counts = self._shed(shed, batch, hashes, active, bits) if shed.is_on else None
        sizes = np.zeros((2, self.matchers + 1), np.uint64)
        count_outputs(batch.bounds, bits, sizes)
        offsets = np.concatenate([np.zeros((2, 1), np.uint64), np.cumsum(sizes, axis=1, dtype=np.uint64)], axis=1)
        rows = np.empty((2, int(offsets[0, -1])), np.uint32)
        terms = np.empty(int(offsets[1, -1]), np.uint32)
        ends = offsets.copy()
        needed = self._always.copy()
        longest = int((batch.bounds[:, 1] - batch.bounds[:, 0]).max(initial=0))
        needs = (self._matchers_of_term, self._is_split, self._companions, self._always, self._is_used)
        scratch = np.empty((longest, 3), np.uint64)
        _distribute(*posts, active, hashes, bits, *needs, self._gaps_after, needed, scratch, ends, rows, terms)
        return RoutedBatch(slice_batches(offsets, ends, rows, terms), counts, spread)

    @cached_property
    def _holders(self) -> AnchorHolders:
        return AnchorHolders.of(self._anchors, self._is_split)

    @cached_property
    def _uncounted_holders(self) -> AnchorHolders:
        return self._holders.without_counts()

    def _shed(
        self,
        shed: ShedDecision,
        batch: AnalyzedBatch,
        hashes: NDArray[np.uint64],
        active: NDArray[np.uint32],
        bits: NDArray[np.uint64],
    ) -> ShedPostCounts:
        keep_distinct(active, batch.bounds, len(self._is_split))
        worth, holders = np.ones(len(active), np.uint64), self._uncounted_holders
        if shed.policy == "subscription":
            match_potential(batch.terms, batch.bounds, active, self._companions, worth)
            holders = self._holders
        return shed_posts(shed.allowed_matchers(hashes), active, batch.bounds, holders, worth, bits)


def split_off_local(
    shares: Sequence[MatcherBatch], posts: int
) -> tuple[Sequence[MatcherBatch], Sequence[MatcherBatch]]:
    """Return the shares of the posts that only one matcher gets, and the others. Few such posts are not split off."""
    matchers = np.zeros(posts, np.uint16)
    for share in shares:
        matchers[share.posts] += 1
    is_local = matchers == 1
    if 2 * is_local.sum() < (matchers > 0).sum():
        return [], shares
    if not (matchers > 1).any():
        return shares, []
    parts = [(share, is_local[share.posts]) for share in shares]
    local = [share.select(np.flatnonzero(mask)) for share, mask in parts if mask.any()]
    return local, [share.select(np.flatnonzero(~mask)) for share, mask in parts if not mask.all()]


def slice_batches(
    offsets: NDArray[np.uint64], ends: NDArray[np.uint64], rows: NDArray[np.uint32], terms: NDArray[np.uint32]
) -> list[MatcherBatch]:
    """Return the batch of every matcher that has posts, from where its rows and terms start and end."""
    batches = []
    for matcher in np.flatnonzero(ends[0] > offsets[0]).tolist():
        (first, base), (last, end) = offsets[:, matcher].tolist(), ends[:, matcher].tolist()
        starts = np.concatenate([np.zeros(1, np.uint32), rows[1, first:last] - np.uint32(base)])
        batches.append(MatcherBatch(matcher, rows[0, first:last], terms[base:end], starts))
    return batches


def count_spread(bits: NDArray[np.uint64], matchers: int) -> NDArray[np.int64]:
    """Return how many posts reach 0, 1, 2, … matchers."""
    return np.bincount(np.bitwise_count(bits).sum(axis=1, dtype=np.int64), minlength=matchers + 1)


@inline
def _has_companion(companions, term, signature):  # type: ignore[no-untyped-def]
    """Whether any companion of an anchor may be among the terms of the post."""
    first, second, third, fourth = signature
    common = (companions[term, _ZERO] & first) | (companions[term, _ONE] & second)
    common |= (companions[term, uint64(2)] & third) | (companions[term, uint64(3)] & fourth)
    return common != 0


@inline
def _choose_split(of_term, term, key):  # type: ignore[no-untyped-def]
    """Return the matcher of one of the splits of a hot term; each split has all subscriptions of the term.

    The content of the post decides, so that small batches are spread too. Without splits, return a number too large.
    """
    splits = _ZERO
    for word in range(uint64(of_term.shape[1])):
        left = of_term[term, word]
        while left != 0:
            splits += _ONE
            left &= left - _ONE
    remaining = split_of(key, term, splits) if splits > 0 else _ZERO
    for word in range(uint64(of_term.shape[1])):
        left = of_term[term, word]
        while left != 0:
            if remaining == 0:
                return word * uint64(64) + lowest_bit(left)
            remaining -= _ONE
            left &= left - _ONE
    return uint64(of_term.shape[1]) * uint64(64)


@inline
def _anchored_at(of_term, is_split, term, key, word):  # type: ignore[no-untyped-def]
    """Return the matchers, of 64, that look for an active anchor."""
    if is_split[term] == 0:
        return of_term[term, word]
    matcher = _choose_split(of_term, term, key)
    return _ONE << (matcher & uint64(63)) if matcher >> uint64(6) == word else _ZERO


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(float64),
    read(uint64),
    read(uint64, 2),
    read(uint8),
    read(uint64, 2),
    read(uint64, 2),
    write(uint32),
    write(uint64, 2),
)
def _route(terms, bounds, positions, hashes, of_term, is_split, of_cell, companions, active, bits):  # type: ignore[no-untyped-def]
    """Write the matchers of every post as bits. `hashes` are those of the content of the posts.

    `active` gets the anchors of every post that have a companion in it, at the offset of its terms, followed by a 0.
    """
    width = uint64(bits.shape[1])
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        signature = post_signature(terms, start, end)
        used = start
        for at in range(start, end):
            term = uint64(terms[at])
            active[used] = terms[at]
            used += uint64(_has_companion(companions, term, signature))
        for at in range(start, used):
            for word in range(width):
                bits[post, word] |= _anchored_at(of_term, is_split, uint64(active[at]), hashes[post], word)
        if used < end:
            active[used] = uint32(0)
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        if of_cell.shape[0] > 0 and on_globe(lon, lat):
            cell = cell_at(lon, lat)
            for word in range(width):
                bits[post, word] |= of_cell[cell, word]


@kernel(types.void, read(uint32, 2), read(uint64, 2), write(uint64, 2))
def count_outputs(bounds, bits, sizes):  # type: ignore[no-untyped-def]
    """Count per matcher its posts and the maximum number of their terms."""
    for post in range(uint64(bounds.shape[0])):
        length = uint64(bounds[post, _ONE]) - uint64(bounds[post, _ZERO])
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                sizes[_ZERO, matcher] += _ONE
                sizes[_ONE, matcher] += length
                left &= left - _ONE


@inline
def _look_up_terms(terms, start, end, word, at_matchers, is_used, gaps_after, looked_up):  # type: ignore[no-untyped-def]
    """Write per term of a post: the matchers that use it, its bit in a signature, whether gaps after it are kept."""
    for at in range(start, end):
        term = uint64(terms[at])
        looked_up[at - start, _ZERO] = is_used[term, word] & at_matchers
        looked_up[at - start, _ONE] = signature_bit(term) | uint64(gaps_after[term]) << uint64(8)


@inline
def _look_up_anchors(terms, active, start, end, word, at_matchers, of_term, is_split, key, looked_up):  # type: ignore[no-untyped-def]
    """Write per term of a post the matchers that look for it. `active` has its active anchors, in order."""
    number = start
    for at in range(start, end):
        looked_up[at - start, _TWO] = _ZERO
        if number < end and active[number] == terms[at] and terms[at] != 0:
            looked_up[at - start, _TWO] = _anchored_at(of_term, is_split, uint64(terms[at]), key, word) & at_matchers
            number += _ONE


@inline
def _add_needed(terms, start, end, word, companions, looked_up, needed):  # type: ignore[no-untyped-def]
    """Add the active anchors of a post and their companions to the terms that its matchers need."""
    for at in range(start, end):
        term, left = uint64(terms[at]), looked_up[at - start, _TWO]
        while left != 0:
            matcher = word * uint64(64) + lowest_bit(left)
            for part in range(uint64(SIGNATURE_WORDS)):
                needed[matcher, part] |= companions[term, part]
            needed[matcher, signature_word(term)] |= signature_mask(term)
            left &= left - _ONE


@inline
def _choose_terms(terms, start, end, bit, needed, looked_up, chosen, used):  # type: ignore[no-untyped-def]
    """Write the terms of a post that one matcher needs; other terms leave a gap after a phrase term.

    Branch-free: a term that is not needed is overwritten by the next one.
    """
    gap = _ZERO
    for at in range(start, end):
        used_by, info = looked_up[at - start, _ZERO], looked_up[at - start, _ONE]
        is_needed = (used_by >> bit) & (needed[(info >> uint64(6)) & uint64(3)] >> (info & uint64(63))) & _ONE
        is_companion = (looked_up[at - start, _TWO] >> bit) & _ONE ^ _ONE
        chosen[used] = (terms[at] | uint32(is_companion << uint64(31))) * uint32(is_needed)
        used += is_needed | gap
        gap = is_needed & (info >> uint64(8))
    return used


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint64),
    read(uint64, 2),
    read(uint64, 2),
    read(uint8),
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
def _distribute(  # type: ignore[no-untyped-def]
    terms,
    bounds,
    active,
    hashes,
    bits,
    of_term,
    is_split,
    companions,
    always,
    is_used,
    gaps_after,
    needed,
    looked_up,
    offsets,
    rows,
    out,
):
    """Write the posts of every matcher and the terms that it needs of each.

    `offsets` has per matcher where its posts and terms start, and afterwards where they end. `rows` gets each post and
    the end of its terms. `needed` starts as a copy of `always` and is reset after every post. `looked_up` is scratch
    space for the terms of one post.
    """
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            if left == 0:
                continue
            _look_up_terms(terms, start, end, word, left, is_used, gaps_after, looked_up)
            _look_up_anchors(terms, active, start, end, word, left, of_term, is_split, hashes[post], looked_up)
            _add_needed(terms, start, end, word, companions, looked_up, needed)
            while left != 0:
                bit = lowest_bit(left)
                matcher = word * uint64(64) + bit
                used = _choose_terms(terms, start, end, bit, needed[matcher], looked_up, out, offsets[_ONE, matcher])
                at = offsets[_ZERO, matcher]
                rows[_ZERO, at], rows[_ONE, at] = uint32(post), uint32(used)
                offsets[_ZERO, matcher], offsets[_ONE, matcher] = at + _ONE, used
                for part in range(uint64(SIGNATURE_WORDS)):
                    needed[matcher, part] = always[matcher, part]
                left &= left - _ONE
