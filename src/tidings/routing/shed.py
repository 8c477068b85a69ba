"""Load shedding (S³-TM 5.2.1): send a post to fewer matchers than it should reach, to those where it is worth most.

`consensus` keeps the matchers that most of its anchors route to; `subscription` those with the most candidate
subscriptions (`shed_value.py`); `random`, the baseline, drops whole posts. A word that a post repeats counts once, and
so do the subscriptions of a hot term, of which each of its matchers has a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, int64, types, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.jit import inline, kernel, read, write
from tidings.routing.anchor_holders import COPY_BIT, MATCHER_MASK, AnchorHolders
from tidings.text.byte_masks import lowest_bit

POLICIES = ("off", "consensus", "subscription", "random")
_MAX_LIMIT = 10_000  # more than the maximum number of matchers
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class ShedDecision:
    """A policy and its limit: the maximum matchers per post (`random`: the fraction of posts that pass)."""

    policy: str = "off"
    limit: float = np.inf
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"shedding policy {self.policy!r}: unknown. Choose one of: {', '.join(POLICIES)}.")

    @property
    def is_on(self) -> bool:
        return self.policy != "off" and np.isfinite(self.limit)

    def allowed_matchers(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Return how many matchers each post may reach. Posts with equal hashes may reach equally many."""
        allowed = np.empty(len(hashes), np.uint16)
        _allow_matchers(hashes, uint64(self.seed), float64(min(self.limit, _MAX_LIMIT)), allowed)
        return np.where(allowed > 0, np.uint16(_MAX_LIMIT), allowed) if self.policy == "random" else allowed


@dataclass(frozen=True, slots=True)
class ShedPostCounts:
    """Posts that were not sent, per matcher and per row of the anchor holders.

    A hot term counts, at its first matcher, only if none of its splits was reached: each has all its subscriptions.
    """

    by_matcher: NDArray[np.int64]
    by_holder: NDArray[np.int64]
    holders: AnchorHolders

    @property
    def total(self) -> int:
        return int(self.by_matcher.sum())

    def by_anchor(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (anchor << 16 | matcher, posts that the matcher missed although they have the anchor)."""
        rows = np.flatnonzero(self.by_holder)
        matchers = (self.holders.holders[rows, 0] & MATCHER_MASK).astype(np.int64)
        return self.holders.terms()[rows] << 16 | matchers, self.by_holder[rows]


def keep_distinct(active: NDArray[np.uint32], bounds: NDArray[np.uint32], terms: int) -> None:
    """Keep each active anchor of a post once; they stay followed by a 0. Anchors are less than `terms`."""
    _keep_distinct(active, bounds, np.zeros(terms // 8 + 1, np.uint8))


def shed_posts(
    allowed: NDArray[np.uint16],
    active: NDArray[np.uint32],
    bounds: NDArray[np.uint32],
    holders: AnchorHolders,
    worth: NDArray[np.uint64],
    bits: NDArray[np.uint64],
) -> ShedPostCounts:
    """Clear the bits of the matchers that posts are not sent to; return the counts.

    `active` has the distinct active anchors of each post as the router writes them, `worth` the value of one
    conjunction of each.
    """
    matchers, before = bits.shape[1] * 64, bits.copy()
    posts, table = (active, bounds), (holders.starts, holders.holders)
    _limit_matchers(*posts, *table, worth, allowed, bits, np.zeros(matchers, np.uint64))
    counts = ShedPostCounts(np.zeros(matchers, np.int64), np.zeros(len(holders.holders), np.int64), holders)
    _count_shed(*posts, *table, before, bits, counts.by_matcher, counts.by_holder)
    return counts


@kernel(types.void, read(uint64), uint64, float64, write(uint16))
def _allow_matchers(hashes, seed, limit, allowed):  # type: ignore[no-untyped-def]
    """Write the limit of each post; a fraction is the probability of one more, by a hash and the seed."""
    whole = uint64(limit)
    for post in range(uint64(hashes.size)):
        mixed = (hashes[post] + _ONE) * _MIX + seed
        mixed = (mixed ^ (mixed >> uint64(29))) * _MIX
        draw = float64(mixed >> uint64(11)) / float64(uint64(1) << uint64(53))
        allowed[post] = uint16(whole + uint64(draw < limit - float64(whole)))


@kernel(types.void, write(uint32), read(uint32, 2), write(uint8))
def _keep_distinct(active, bounds, seen):  # type: ignore[no-untyped-def]
    """`seen` has a zero bit per term, and again afterwards."""
    for post in range(uint64(bounds.shape[0])):
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        used = start
        for at in range(start, end):
            term = uint64(active[at])
            if term == 0:
                break
            bit = uint8(1) << uint8(term & uint64(7))
            if seen[term >> uint64(3)] & bit == 0:
                seen[term >> uint64(3)] |= bit
                active[used] = uint32(term)
                used += _ONE
        for at in range(start, used):
            seen[uint64(active[at]) >> uint64(3)] = uint8(0)
        if used < end:
            active[used] = uint32(0)


@inline
def _count_matchers(bits, post):  # type: ignore[no-untyped-def]
    count = uint64(0)
    for word in range(uint64(bits.shape[1])):
        left = bits[post, word]
        while left != 0:
            count += _ONE
            left &= left - _ONE
    return count


@inline
def _has_matcher(bits, post, matcher):  # type: ignore[no-untyped-def]
    return (bits[post, matcher >> uint64(6)] >> (matcher & uint64(63))) & _ONE != 0


@inline
def _is_copied(starts, holders, term):  # type: ignore[no-untyped-def]
    """Whether every holder of an anchor has a copy of all its conjunctions."""
    return holders[uint64(starts[term]), _ZERO] & COPY_BIT != 0


@inline
def _add_once(starts, holders, term, worth, bits, post, score):  # type: ignore[no-untyped-def]
    """Add the worth of a hot term at the holder with the highest score: the copies at others add nothing."""
    best, highest, count = uint64(0), _ZERO, _ZERO
    for row in range(uint64(starts[term]), uint64(starts[term + _ONE])):
        matcher = uint64(holders[row, _ZERO] & MATCHER_MASK)
        if _has_matcher(bits, post, matcher) and score[matcher] > highest:
            best, highest, count = matcher, score[matcher], uint64(holders[row, _ONE])
    score[best] += count * worth


@inline
def _score(active, start, end, starts, holders, worth, bits, post, score):  # type: ignore[no-untyped-def]
    """Write the score of a post at each of its matchers: one plus the worth of the conjunctions there."""
    for word in range(uint64(bits.shape[1])):
        left = bits[post, word]
        while left != 0:
            score[word * uint64(64) + lowest_bit(left)] = _ONE
            left &= left - _ONE
    for is_copied in (False, True):
        for at in range(start, end):
            term = uint64(active[at])
            if term == 0:
                break
            if _is_copied(starts, holders, term) != is_copied:
                continue
            if is_copied:
                _add_once(starts, holders, term, worth[at], bits, post, score)
                continue
            for row in range(uint64(starts[term]), uint64(starts[term + _ONE])):
                matcher = uint64(holders[row, _ZERO] & MATCHER_MASK)
                if _has_matcher(bits, post, matcher):
                    score[matcher] += worth[at] * uint64(holders[row, _ONE])


@inline
def _lowest_score(bits, post, score):  # type: ignore[no-untyped-def]
    """Return the matcher with the lowest score of a post; among equals the one with the highest number."""
    result, lowest = uint64(0), ~_ZERO
    for word in range(uint64(bits.shape[1])):
        left = bits[post, word]
        while left != 0:
            matcher = word * uint64(64) + lowest_bit(left)
            if score[matcher] <= lowest:
                result, lowest = matcher, score[matcher]
            left &= left - _ONE
    return result


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32, 2),
    read(uint64),
    read(uint16),
    write(uint64, 2),
    write(uint64),
)
def _limit_matchers(active, bounds, starts, holders, worth, allowed, bits, score):  # type: ignore[no-untyped-def]
    for post in range(uint64(bounds.shape[0])):
        targets = _count_matchers(bits, post)
        if targets <= allowed[post]:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        _score(active, start, end, starts, holders, worth, bits, post, score)
        for _ in range(targets - uint64(allowed[post])):
            matcher = _lowest_score(bits, post, score)
            bits[post, matcher >> uint64(6)] &= ~(_ONE << (matcher & uint64(63)))


@inline
def _count_lost(starts, holders, term, post, before, bits, by_holder):  # type: ignore[no-untyped-def]
    """Count a post for the holders of an anchor that it misses; for copies, for the first if it misses all."""
    first, end = uint64(starts[term]), uint64(starts[term + _ONE])
    is_copied, first_missed = _is_copied(starts, holders, term), end
    for row in range(first, end):
        matcher = uint64(holders[row, _ZERO] & MATCHER_MASK)
        if is_copied and _has_matcher(bits, post, matcher):
            return
        if _has_matcher(before, post, matcher) and not _has_matcher(bits, post, matcher):
            if not is_copied:
                by_holder[row] += int64(1)
            first_missed = min(first_missed, row)
    if is_copied and first_missed < end:
        by_holder[first_missed] += int64(1)


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32, 2),
    read(uint64, 2),
    read(uint64, 2),
    write(int64),
    write(int64),
)
def _count_shed(active, bounds, starts, holders, before, bits, by_matcher, by_holder):  # type: ignore[no-untyped-def]
    """Count the posts whose matchers in `before` are missing in `bits`."""
    for post in range(uint64(bits.shape[0])):
        is_shed = False
        for word in range(uint64(bits.shape[1])):
            removed = before[post, word] & ~bits[post, word]
            while removed != 0:
                by_matcher[word * uint64(64) + lowest_bit(removed)] += int64(1)
                removed &= removed - _ONE
                is_shed = True
        if not is_shed:
            continue
        for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
            if active[at] == 0:
                break
            _count_lost(starts, holders, uint64(active[at]), post, before, bits, by_holder)
