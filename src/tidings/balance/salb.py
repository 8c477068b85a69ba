"""SALB (S³-TM, algorithm 1): words in descending frequency, each given to the matcher of the best utility.

For every post a bitmap of the matchers it already goes to; so the posts of a word tell, by counting bits, how much load
the word would bring to each matcher. Two rules for the choice:

*As printed* (`salb`): the least spread × coefficient of variation. The spread cancels out of that product (it is
N·σ/|P|), so it comes down to the least variance of the loads.

*As it should have been* (`salb+`): the least extra load, where the part of the word's frequency by which a matcher
would lie above the average counts as extra load too, `_WEIGHT` times. Then every word chooses once again, now that all
others have: the first to choose knew nothing of those they occur with. See docs/decisions/0005.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, types, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.word_plan_metrics import measure
from tidings.jit import inlined, kernel, read, write
from tidings.plan.hot_splits import Versions
from tidings.text.byte_masks import lowest_bit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_WEIGHT = 4.0  # of the overload; from 2 to 8 it hardly matters
_ENOUGH_POSTS = 500  # of a word, to see which company it keeps


def salb(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    """The matcher of every word, as the paper prints it."""
    return _assigned(corpus, matchers, np.float64(-1), np.zeros(len(corpus.terms), np.int64))


def salb_plus(corpus: Corpus, matchers: int, work: NDArray[np.int64] | None = None) -> NDArray[np.uint16]:
    """The matcher of every word, with an eye on the spread.

    `work` is what each word brings to its matcher besides the posts that say it, in posts; nothing unless told.
    """
    brought = np.zeros(len(corpus.terms), np.int64) if work is None else work
    chosen = _assigned(corpus, matchers, np.float64(_WEIGHT), brought)
    loads = np.array(measure(corpus, Versions.whole(chosen), matchers).loads, np.int64)
    np.add.at(loads, chosen, brought)
    order, scratch = _order(corpus, brought), (np.zeros(matchers, np.int64), np.zeros(matchers, np.uint64))
    texts = (corpus.words, corpus.starts, corpus.posts, corpus.said)
    _choose_again(*texts, order, brought, np.float64(_WEIGHT), loads, *scratch, chosen)
    return chosen


def _order(corpus: Corpus, work: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The words, those that bring most first: the most frequent, where they bring nothing but their posts."""
    return np.argsort(-(corpus.frequency + work), kind="stable").astype(np.uint32)


def _assigned(corpus: Corpus, matchers: int, weight: np.float64, work: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Words one after another; a negative weight chooses the printed rule."""
    chosen = np.zeros(len(corpus.terms), np.uint16)
    goes_to = np.zeros((corpus.size, (matchers + 63) // 64), np.uint64)
    counts = np.zeros((2, matchers), np.int64)
    _assign(corpus.posts, corpus.said, _order(corpus, work), work, weight, goes_to, counts, chosen)
    return chosen


@inlined
def _variance_change(load, extra, total, matchers):  # type: ignore[no-untyped-def]
    """By how much N²·variance of the loads grows when one of them does; whole numbers, so ties are ties."""
    return extra * (2 * matchers * load + matchers * extra - 2 * total - extra)


@inlined
def _least_variance(loads, met, frequency, total):  # type: ignore[no-untyped-def]
    """The matcher that keeps the loads nearest to each other; ties: less extra load, then the lower number."""
    matchers = int64(loads.size)
    best, best_extra = _ZERO, frequency - met[_ZERO]
    best_change = _variance_change(loads[_ZERO], best_extra, total, matchers)
    for matcher in range(_ONE, uint64(loads.size)):
        extra = frequency - met[matcher]
        change = _variance_change(loads[matcher], extra, total, matchers)
        if change < best_change or (change == best_change and extra < best_extra):
            best, best_extra, best_change = uint64(matcher), extra, change
    return best


@inlined
def _least_overload(loads, met, frequency, work, total, weight):  # type: ignore[no-untyped-def]
    """The matcher that needs the fewest extra posts, each word's share of an overload counted as extra too."""
    matchers = int64(loads.size)
    best, best_extra, best_cost = _ZERO, int64(0), float64(np.inf)
    mean = float64(total) / float64(matchers) + 1.0
    for matcher in range(uint64(loads.size)):
        extra = frequency - met[matcher]
        over = max(0.0, float64(loads[matcher] + extra + work) - mean)
        cost = float64(extra) + weight * float64(frequency + work) * over / mean
        if cost < best_cost or (cost == best_cost and extra < best_extra):
            best, best_extra, best_cost = uint64(matcher), extra, cost
    return best


@inlined
def _meet(posts, first, last, goes_to, met):  # type: ignore[no-untyped-def]
    """Count, for each matcher, the posts of a word that go there already."""
    met[:] = 0
    for at in range(first, last):
        post = uint64(posts[at])
        for part in range(uint64(goes_to.shape[1])):
            left = goes_to[post, part]
            while left != 0:
                met[part * uint64(64) + lowest_bit(left)] += 1
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
def _assign(posts, said, order, work, weight, goes_to, counts, chosen):  # type: ignore[no-untyped-def]
    """Choose for every word. `goes_to` starts empty; `counts` is room for the loads and for what a word meets."""
    loads, met = counts[_ZERO], counts[_ONE]
    total = int64(0)
    for rank in range(uint64(order.size)):
        word = uint64(order[rank])
        first, last = said[word], said[word + _ONE]
        _meet(posts, first, last, goes_to, met)
        frequency = int64(last - first)
        if weight < 0:
            best = _least_variance(loads, met, frequency, total)
        else:
            best = _least_overload(loads, met, frequency, work[word], total, weight)
        extra = frequency - met[best] + work[word]
        loads[best] += extra
        total += extra
        chosen[word] = uint16(best)
        bit, part = _ONE << (best & uint64(63)), best >> uint64(6)
        for at in range(first, last):
            goes_to[uint64(posts[at]), part] |= bit


@inlined
def _meet_others(words, starts, posts, first, last, word, chosen, met, seen, count):  # type: ignore[no-untyped-def]
    """Count, for each matcher, the posts of a word that go there for another word; how many posts were ever looked at.

    Of a frequent word some hundred posts stand for all. `seen` says which post was the last to go to a matcher.
    """
    met[:] = 0
    step = max(_ONE, (last - first) // uint64(_ENOUGH_POSTS))
    for at in range(first, last, step):
        post = uint64(posts[at])
        count += _ONE
        for place in range(starts[post], starts[post + _ONE]):
            other = uint64(words[place])
            matcher = uint64(chosen[other])
            if other != word and seen[matcher] != count:
                seen[matcher] = count
                met[matcher] += 1
    if step > _ONE:
        frequency, looked = int64(last - first), int64((last - first + step - _ONE) // step)
        for matcher in range(uint64(met.size)):
            met[matcher] = met[matcher] * frequency // looked
    return count


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
def _choose_again(words, starts, posts, said, order, work, weight, loads, met, seen, chosen):  # type: ignore[no-untyped-def]
    """Take every word from its matcher and choose anew; `loads` are those of `chosen` before and after."""
    total, count = int64(0), _ZERO
    for matcher in range(uint64(loads.size)):
        total += loads[matcher]
    for rank in range(uint64(order.size)):
        word = uint64(order[rank])
        first, last = said[word], said[word + _ONE]
        count = _meet_others(words, starts, posts, first, last, word, chosen, met, seen, count)
        frequency, before = int64(last - first), uint64(chosen[word])
        loads[before] -= frequency - met[before] + work[word]
        total -= frequency - met[before] + work[word]
        best = _least_overload(loads, met, frequency, work[word], total, weight)
        loads[best] += frequency - met[best] + work[word]
        total += frequency - met[best] + work[word]
        chosen[word] = uint16(best)
