"""Load shedding (S³-TM 5.2.1): send a post to fewer matchers than it should reach, to those where it is worth most.

`consensus` keeps the matchers that most of its anchors route to; `subscription` those with the most candidate
subscriptions (`shed_value.py`); `random`, the baseline, drops whole posts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, int64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.jit import inline, kernel, read, write
from tidings.text.byte_masks import lowest_bit

POLICIES = ("off", "consensus", "subscription", "random")
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


@dataclass(frozen=True, slots=True)
class ShedPostCounts:
    """Posts that were not sent, per matcher and per anchor that reached fewer matchers because of it.

    A hot term counts only if none of its splits was reached, because each split has all of its subscriptions.
    """

    by_matcher: NDArray[np.int64]
    by_anchor: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.by_matcher.sum())


def shed_posts(
    decision: ShedDecision,
    active: NDArray[np.uint32],
    bounds: NDArray[np.uint32],
    of_term: NDArray[np.uint64],
    worth: NDArray[np.uint64],
    bits: NDArray[np.uint64],
    is_split: NDArray[np.uint8] | None = None,
) -> ShedPostCounts:
    """Clear the bits of the matchers that posts are not sent to; return the counts.

    `active` has the active anchors of each post as the router writes them, `worth` the value of each, `of_term` the
    matchers of terms. `is_split` flags hot terms.
    """
    matchers, before = bits.shape[1] * 64, bits.copy()
    chance = (float64(decision.limit), uint64(decision.seed))
    if decision.policy == "random":
        _drop_posts(*chance, bits)
    else:
        _limit_matchers(active, bounds, of_term, worth, *chance, bits, np.zeros(matchers, np.uint64))
    counts = ShedPostCounts(np.zeros(matchers, np.int64), np.zeros(len(of_term), np.int64))
    split = np.zeros(len(of_term), np.uint8) if is_split is None else is_split
    _count_shed(active, bounds, of_term, split, before, bits, counts.by_matcher, counts.by_anchor)
    return counts


@inline
def _uniform(post, seed):  # type: ignore[no-untyped-def]
    """Return a pseudo-random number in [0, 1) that depends only on post and seed."""
    mixed = (uint64(post) + _ONE) * _MIX + seed
    mixed = (mixed ^ (mixed >> uint64(29))) * _MIX
    return float64(mixed >> uint64(11)) / float64(uint64(1) << uint64(53))


@kernel(types.void, float64, uint64, write(uint64, 2))
def _drop_posts(fraction, seed, bits):  # type: ignore[no-untyped-def]
    for post in range(uint64(bits.shape[0])):
        if _uniform(post, seed) >= fraction:
            for word in range(uint64(bits.shape[1])):
                bits[post, word] = _ZERO


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
def _score(active, start, end, of_term, worth, bits, post, score):  # type: ignore[no-untyped-def]
    """Write the score of a post at each of its matchers: one plus the worth of its anchors there."""
    for word in range(uint64(bits.shape[1])):
        left = bits[post, word]
        while left != 0:
            score[word * uint64(64) + lowest_bit(left)] = _ONE
            left &= left - _ONE
    for at in range(start, end):
        term = uint64(active[at])
        if term == 0:
            break
        for word in range(uint64(bits.shape[1])):
            left = of_term[term, word] & bits[post, word]
            while left != 0:
                score[word * uint64(64) + lowest_bit(left)] += worth[at]
                left &= left - _ONE


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
    read(uint64, 2),
    read(uint64),
    float64,
    uint64,
    write(uint64, 2),
    write(uint64),
)
def _limit_matchers(active, bounds, of_term, worth, limit, seed, bits, score):  # type: ignore[no-untyped-def]
    whole = uint64(limit)
    for post in range(uint64(bounds.shape[0])):
        targets = _count_matchers(bits, post)
        if targets <= whole:
            continue
        allowed = whole + uint64(_uniform(post, seed) < limit - float64(whole))
        if targets <= allowed:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        _score(active, start, end, of_term, worth, bits, post, score)
        for _ in range(targets - allowed):
            matcher = _lowest_score(bits, post, score)
            bits[post, matcher >> uint64(6)] &= ~(_ONE << (matcher & uint64(63)))


@inline
def _is_repeated(active, start, at):  # type: ignore[no-untyped-def]
    """Whether this anchor occurs earlier in the post."""
    is_repeated = False
    for earlier in range(start, at):
        is_repeated |= active[earlier] == active[at]
    return is_repeated


@inline
def _is_lost(of_term, is_split, term, post, before, bits):  # type: ignore[no-untyped-def]
    """Whether an anchor of a post reaches fewer matchers than before; for a hot term, whether it reaches none."""
    removed, left = _ZERO, _ZERO
    for word in range(uint64(bits.shape[1])):
        removed |= of_term[term, word] & before[post, word] & ~bits[post, word]
        left |= of_term[term, word] & bits[post, word]
    return removed != 0 and (is_split[term] == 0 or left == 0)


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint64, 2),
    read(uint8),
    read(uint64, 2),
    read(uint64, 2),
    write(int64),
    write(int64),
)
def _count_shed(active, bounds, of_term, is_split, before, bits, by_matcher, by_anchor):  # type: ignore[no-untyped-def]
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
        start = uint64(bounds[post, _ZERO])
        for at in range(start, uint64(bounds[post, _ONE])):
            term = uint64(active[at])
            if term == 0:
                break
            if not _is_repeated(active, start, at) and _is_lost(of_term, is_split, term, post, before, bits):
                by_anchor[term] += int64(1)
