"""What load to shed (S³-TM 5.2.1): a post goes to fewer matchers than it should, to those where it is worth most.

*consensus*: where most of its words lead. *subscription*: where its words lead to most subscriptions. *random*: whole
posts are dropped, whatever they say; the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import float64, int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.jit import inlined, kernel, read, write
from tidings.receive.marks import lowest_bit

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
    """What was not sent: posts by matcher, and by the word that would have led them there."""

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
    worth: NDArray[np.uint32],
    bits: NDArray[np.uint64],
) -> Withheld:
    """Clear the matchers in `bits` that posts are not sent to.

    `active` has the leads of each post as the router leaves them, `of_term` their matchers; `worth` is what a lead
    counts: 1, or how many subscriptions it leads to.
    """
    matchers = bits.shape[1] * 64
    withheld = Withheld(np.zeros(matchers, np.int64), np.zeros(len(of_term), np.int64))
    counted = (withheld.by_matcher, withheld.by_lead)
    if shed.policy == "random":
        _drop(active, bounds, of_term, float64(shed.limit), uint64(shed.seed), bits, *counted)
    else:
        score = np.zeros(matchers, np.uint64)
        _limit(active, bounds, of_term, worth, float64(shed.limit), uint64(shed.seed), bits, score, *counted)
    return withheld


@inlined
def _chance(post, seed):  # type: ignore[no-untyped-def]
    """A number from 0 to 1 that is as good as random, and the same for the same post and seed."""
    mixed = (uint64(post) + _ONE) * _MIX + seed
    mixed = (mixed ^ (mixed >> uint64(29))) * _MIX
    return float64(mixed >> uint64(11)) / float64(uint64(1) << uint64(53))


@inlined
def _count_leads(active, start, end, of_term, word, gone, by_lead):  # type: ignore[no-untyped-def]
    """Count every lead of a post that leads to a matcher it is not sent to."""
    for at in range(start, end):
        term = uint64(active[at])
        if term == 0:
            break
        by_lead[term] += int64(of_term[term, word] & gone != 0)


@inlined
def _count_matchers(word, gone, by_matcher):  # type: ignore[no-untyped-def]
    while gone != 0:
        by_matcher[word * uint64(64) + lowest_bit(gone)] += int64(1)
        gone &= gone - _ONE


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint64, 2),
    float64,
    uint64,
    write(uint64, 2),
    write(int64),
    write(int64),
)
def _drop(active, bounds, of_term, passing, seed, bits, by_matcher, by_lead):  # type: ignore[no-untyped-def]
    for post in range(uint64(bounds.shape[0])):
        if _chance(post, seed) < passing:
            continue
        for word in range(uint64(bits.shape[1])):
            gone = bits[post, word]
            start, end = uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])
            _count_leads(active, start, end, of_term, word, gone, by_lead)
            _count_matchers(word, gone, by_matcher)
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
                score[word * uint64(64) + lowest_bit(left)] += uint64(worth[term])
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
    read(uint32),
    float64,
    uint64,
    write(uint64, 2),
    write(uint64),
    write(int64),
    write(int64),
)
def _limit(active, bounds, of_term, worth, limit, seed, bits, score, by_matcher, by_lead):  # type: ignore[no-untyped-def]
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
            word, gone = matcher >> uint64(6), _ONE << (matcher & uint64(63))
            bits[post, word] &= ~gone
            by_matcher[matcher] += int64(1)
            _count_leads(active, start, end, of_term, word, gone, by_lead)
