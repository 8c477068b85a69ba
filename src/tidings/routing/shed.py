"""What load to shed (S³-TM 5.2.1): a post goes to fewer matchers than it should, to those where it is worth most.

*consensus*: where most of its words lead. *subscription*: where it is in reach of most subscriptions (`reach.py`).
*random*: whole posts are dropped, whatever they say; the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, int64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.jit import inlined, kernel, read, write
from tidings.text.byte_masks import lowest_bit

POLICIES = ("off", "consensus", "subscription", "random")
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


def check_policy(name: str) -> str:
    if name not in POLICIES:
        raise InputError(f"There is no way of shedding called {name!r}; choose one of: {', '.join(POLICIES)}.")
    return name


@dataclass(frozen=True, slots=True)
class Shed:
    """A policy, and to how many matchers a post may go (of `random`: the share of posts that passes)."""

    policy: str = "off"
    limit: float = np.inf
    seed: int = 0

    @property
    def is_on(self) -> bool:
        return self.policy != "off" and np.isfinite(self.limit)


@dataclass(frozen=True, slots=True)
class Withheld:
    """What was not sent: posts by matcher, and by the word that led to nothing, or to less, for it.

    A word that is split, which any of its matchers finds all for, counts only where none of them was left.
    """

    by_matcher: NDArray[np.int64]
    by_lead: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.by_matcher.sum())


def withhold(
    shed: Shed,
    active: NDArray[np.uint32],
    bounds: NDArray[np.uint32],
    of_term: NDArray[np.uint64],
    worth: NDArray[np.uint64],
    bits: NDArray[np.uint64],
    is_split: NDArray[np.uint8] | None = None,
) -> Withheld:
    """Clear the matchers in `bits` that posts are not sent to.

    `active` has the leads of each post as the router leaves them, `worth` what each of them counts there, `of_term` the
    matchers of terms. `is_split` flags the leads that have several versions.
    """
    matchers, before = bits.shape[1] * 64, bits.copy()
    chance = (float64(shed.limit), uint64(shed.seed))
    if shed.policy == "random":
        _drop(*chance, bits)
    else:
        _limit(active, bounds, of_term, worth, *chance, bits, np.zeros(matchers, np.uint64))
    withheld = Withheld(np.zeros(matchers, np.int64), np.zeros(len(of_term), np.int64))
    split = np.zeros(len(of_term), np.uint8) if is_split is None else is_split
    _count(active, bounds, of_term, split, before, bits, withheld.by_matcher, withheld.by_lead)
    return withheld


@inlined
def _chance(post, seed):  # type: ignore[no-untyped-def]
    """A number from 0 to 1 that is as good as random, and the same for the same post and seed."""
    mixed = (uint64(post) + _ONE) * _MIX + seed
    mixed = (mixed ^ (mixed >> uint64(29))) * _MIX
    return float64(mixed >> uint64(11)) / float64(uint64(1) << uint64(53))


@kernel(types.void, float64, uint64, write(uint64, 2))
def _drop(passing, seed, bits):  # type: ignore[no-untyped-def]
    for post in range(uint64(bits.shape[0])):
        if _chance(post, seed) >= passing:
            for word in range(uint64(bits.shape[1])):
                bits[post, word] = _ZERO


@inlined
def _targets(bits, post):  # type: ignore[no-untyped-def]
    count = uint64(0)
    for word in range(uint64(bits.shape[1])):
        left = bits[post, word]
        while left != 0:
            count += _ONE
            left &= left - _ONE
    return count


@inlined
def _weigh(active, start, end, of_term, worth, bits, post, score):  # type: ignore[no-untyped-def]
    """What the post is worth to each of its matchers: one more than its leads count there, so that none has 0."""
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


@inlined
def _least(bits, post, score):  # type: ignore[no-untyped-def]
    """The matcher of a post that it is worth least to; of several the one with the highest number."""
    found, least = uint64(0), ~_ZERO
    for word in range(uint64(bits.shape[1])):
        left = bits[post, word]
        while left != 0:
            matcher = word * uint64(64) + lowest_bit(left)
            if score[matcher] <= least:
                found, least = matcher, score[matcher]
            left &= left - _ONE
    return found


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
def _limit(active, bounds, of_term, worth, limit, seed, bits, score):  # type: ignore[no-untyped-def]
    whole = uint64(limit)
    for post in range(uint64(bounds.shape[0])):
        targets = _targets(bits, post)
        if targets <= whole:
            continue
        allowed = whole + uint64(_chance(post, seed) < limit - float64(whole))
        if targets <= allowed:
            continue
        start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
        _weigh(active, start, end, of_term, worth, bits, post, score)
        for _ in range(targets - allowed):
            matcher = _least(bits, post, score)
            bits[post, matcher >> uint64(6)] &= ~(_ONE << (matcher & uint64(63)))


@inlined
def _said_before(active, start, at):  # type: ignore[no-untyped-def]
    """Whether a post has led by this word already."""
    found = False
    for earlier in range(start, at):
        found |= active[earlier] == active[at]
    return found


@inlined
def _is_lost(of_term, is_split, term, post, before, bits):  # type: ignore[no-untyped-def]
    """Whether a lead of a post reaches less than before; where it is split, whether it reaches nothing."""
    gone, left = _ZERO, _ZERO
    for word in range(uint64(bits.shape[1])):
        gone |= of_term[term, word] & before[post, word] & ~bits[post, word]
        left |= of_term[term, word] & bits[post, word]
    return gone != 0 and (is_split[term] == 0 or left == 0)


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
def _count(active, bounds, of_term, is_split, before, bits, by_matcher, by_lead):  # type: ignore[no-untyped-def]
    """Count what is in `before` and no longer in `bits`."""
    for post in range(uint64(bits.shape[0])):
        is_shed = False
        for word in range(uint64(bits.shape[1])):
            gone = before[post, word] & ~bits[post, word]
            while gone != 0:
                by_matcher[word * uint64(64) + lowest_bit(gone)] += int64(1)
                gone &= gone - _ONE
                is_shed = True
        if not is_shed:
            continue
        start = uint64(bounds[post, _ZERO])
        for at in range(start, uint64(bounds[post, _ONE])):
            term = uint64(active[at])
            if term == 0:
                break
            if not _said_before(active, start, at) and _is_lost(of_term, is_split, term, post, before, bits):
                by_lead[term] += int64(1)
