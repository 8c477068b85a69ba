"""SALB (S³-TM, algorithm 1): assign terms in descending frequency, each to the matcher with the best utility.

Each post has a bitmap of the matchers that it is already routed to. Counting bits in the posts of a term gives the
extra load that the term would bring to each matcher. There are two rules for the choice:

*As printed* (`salb`): the smallest spread × coefficient of variation. The spread cancels out of that product (it is
N·σ/|P|), so this is the smallest variance of the loads.

*Corrected* (`salb+`): the smallest extra load, plus `_OVERLOAD_WEIGHT` times the part of the term's frequency by
which the matcher would exceed the mean load. Then every term is assigned a second time, because the first terms were
assigned before the terms they co-occur with. See docs/decisions/0005.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, types, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.word_plan_metrics import measure_word_plan
from tidings.jit import inline, kernel, read, write
from tidings.plan.hot_splits import HotSplits
from tidings.text.byte_masks import lowest_bit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_OVERLOAD_WEIGHT = 4.0  # results hardly differ from 2 to 8
_PREFETCHED_POSTS = np.uint64(32)
_SAMPLED_POSTS_PER_TERM = 500  # enough to estimate which terms it co-occurs with


def salb(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    """Return the matcher of every term, by the rule that the paper prints."""
    return _assign_terms(corpus, matchers, np.float64(-1), np.zeros(len(corpus.terms), np.int64))


def salb_plus(corpus: Corpus, matchers: int, work: NDArray[np.int64] | None = None) -> NDArray[np.uint16]:
    """Return the matcher of every term, by the corrected rule.

    `work` is the load of each term on its matcher in addition to its posts, in units of posts (default 0).
    """
    extra_work = np.zeros(len(corpus.terms), np.int64) if work is None else work
    chosen = _assign_terms(corpus, matchers, np.float64(_OVERLOAD_WEIGHT), extra_work)
    loads = np.array(measure_word_plan(corpus, HotSplits.unsplit(chosen), matchers).loads, np.int64)
    np.add.at(loads, chosen, extra_work)
    order = _order_terms(corpus, extra_work)
    scratch = (np.zeros(matchers, np.int64), np.zeros((matchers + 63) // 64 + 1, np.uint64))
    texts = (corpus.post_terms, corpus.post_starts, corpus.term_posts, corpus.term_starts)
    _reassign(*texts, order, extra_work, np.float64(_OVERLOAD_WEIGHT), loads, *scratch, chosen)
    return chosen


def _order_terms(corpus: Corpus, work: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the terms in descending order of load (posts and work)."""
    return np.argsort(-(corpus.frequency + work), kind="stable").astype(np.uint32)


def _assign_terms(corpus: Corpus, matchers: int, weight: np.float64, work: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Assign the terms one after another. A negative weight selects the printed rule."""
    chosen = np.zeros(len(corpus.terms), np.uint16)
    routed_to = np.zeros((corpus.size, (matchers + 63) // 64), np.uint64)
    counts = np.zeros((2, matchers), np.int64)
    _assign(corpus.term_posts, corpus.term_starts, _order_terms(corpus, work), work, weight, routed_to, counts, chosen)
    return chosen


@inline
def _variance_change(load, extra, total, matchers):  # type: ignore[no-untyped-def]
    """Return the change of N²·variance when one load grows by `extra`; in integers, so ties are exact."""
    return extra * (2 * matchers * load + matchers * extra - 2 * total - extra)


@inline
def _least_variance(loads, routed, frequency, total):  # type: ignore[no-untyped-def]
    """Return the matcher with the smallest variance; ties: less extra load, then the lower number."""
    matchers = int64(loads.size)
    best, best_extra = _ZERO, frequency - routed[_ZERO]
    best_change = _variance_change(loads[_ZERO], best_extra, total, matchers)
    for matcher in range(_ONE, uint64(loads.size)):
        extra = frequency - routed[matcher]
        change = _variance_change(loads[matcher], extra, total, matchers)
        if change < best_change or (change == best_change and extra < best_extra):
            best, best_extra, best_change = uint64(matcher), extra, change
    return best


@inline
def _least_overload(loads, routed, frequency, work, total, weight):  # type: ignore[no-untyped-def]
    """Return the matcher with the smallest extra load, where exceeding the mean load counts as extra load."""
    matchers = int64(loads.size)
    best, best_extra, best_cost = _ZERO, int64(0), float64(np.inf)
    mean = float64(total) / float64(matchers) + 1.0
    for matcher in range(uint64(loads.size)):
        extra = frequency - routed[matcher]
        over = max(0.0, float64(loads[matcher] + extra + work) - mean)
        cost = float64(extra) + weight * float64(frequency + work) * over / mean
        if cost < best_cost or (cost == best_cost and extra < best_extra):
            best, best_extra, best_cost = uint64(matcher), extra, cost
    return best


@inline
def _count_routed(posts, first, last, routed_to, routed):  # type: ignore[no-untyped-def]
    """Count for each matcher the posts of a term that are already routed to it."""
    routed[:] = 0
    for at in range(first, last):
        post = uint64(posts[at])
        for part in range(uint64(routed_to.shape[1])):
            left = routed_to[post, part]
            while left != 0:
                routed[part * uint64(64) + lowest_bit(left)] += 1
                left &= left - _ONE


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint32),
    read(int64),
    float64,
    write(uint64, 2),
    write(int64, 2),
    write(uint16),
)
def _assign(posts, term_starts, order, work, weight, routed_to, counts, chosen):  # type: ignore[no-untyped-def]
    """Assign every term. `routed_to` and `counts` (loads, and scratch space for routed posts) start as zeros."""
    loads, routed = counts[_ZERO], counts[_ONE]
    total = int64(0)
    for rank in range(uint64(order.size)):
        term = uint64(order[rank])
        first, last = term_starts[term], term_starts[term + _ONE]
        _count_routed(posts, first, last, routed_to, routed)
        frequency = int64(last - first)
        if weight < 0:
            best = _least_variance(loads, routed, frequency, total)
        else:
            best = _least_overload(loads, routed, frequency, work[term], total, weight)
        extra = frequency - routed[best] + work[term]
        loads[best] += extra
        total += extra
        chosen[term] = uint16(best)
        bit, part = _ONE << (best & uint64(63)), best >> uint64(6)
        for at in range(first, last):
            routed_to[uint64(posts[at]), part] |= bit


@inline
def _count_routed_by_others(post_terms, starts, posts, first, last, term, chosen, routed, seen):  # type: ignore[no-untyped-def]
    """Count for each matcher the posts of a term that other terms route to it.

    For a frequent term, a few hundred posts are extrapolated. `seen` is scratch space: a bitmap, zero before and after
    (setting bits has no branches, which could not be predicted), and one number, which has no meaning.
    """
    routed[:] = 0
    step = max(_ONE, (last - first) // uint64(_SAMPLED_POSTS_PER_TERM))
    parts = uint64(seen.size) - _ONE
    for block in range(first, last, step * _PREFETCHED_POSTS):
        end = min(last, block + step * _PREFETCHED_POSTS)
        for at in range(block, end, step):  # reads the posts of a block into the cache, at the same time
            seen[parts] += uint64(post_terms[starts[uint64(posts[at])]])
        for at in range(block, end, step):
            post = uint64(posts[at])
            for place in range(starts[post], starts[post + _ONE]):
                other = uint64(post_terms[place])
                matcher = uint64(chosen[other])
                seen[matcher >> uint64(6)] |= uint64(other != term) << (matcher & uint64(63))
            for part in range(parts):
                left = seen[part]
                while left != 0:
                    routed[part * uint64(64) + lowest_bit(left)] += 1
                    left &= left - _ONE
                seen[part] = _ZERO
    if step > _ONE:
        frequency, sampled = int64(last - first), int64((last - first + step - _ONE) // step)
        for matcher in range(uint64(routed.size)):
            routed[matcher] = routed[matcher] * frequency // sampled


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint32),
    read(uint64),
    read(uint32),
    read(int64),
    float64,
    write(int64),
    write(int64),
    write(uint64),
    write(uint16),
)
def _reassign(post_terms, starts, posts, term_starts, order, work, weight, loads, routed, seen, chosen):  # type: ignore[no-untyped-def]
    """Remove every term from its matcher and assign it again; `loads` are those of `chosen` before and after."""
    total = int64(0)
    for matcher in range(uint64(loads.size)):
        total += loads[matcher]
    for rank in range(uint64(order.size)):
        term = uint64(order[rank])
        first, last = term_starts[term], term_starts[term + _ONE]
        _count_routed_by_others(post_terms, starts, posts, first, last, term, chosen, routed, seen)
        frequency, before = int64(last - first), uint64(chosen[term])
        loads[before] -= frequency - routed[before] + work[term]
        total -= frequency - routed[before] + work[term]
        best = _least_overload(loads, routed, frequency, work[term], total, weight)
        loads[best] += frequency - routed[best] + work[term]
        total += frequency - routed[best] + work[term]
        chosen[term] = uint16(best)
