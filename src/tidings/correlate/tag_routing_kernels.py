"""The kernels of the disseminator: who is told what of each post, and what must be made up for when an owner is added.

`heads` has a row for each notification: the post, the calculator, how many tags, the weight (1, or -1 for one that is
taken back), and the post at which it was sent; the tags follow each other in `told`.
"""

from __future__ import annotations

import numpy as np
from numba import int32, int64, types, uint32, uint64

from tidings.correlate.partition.plan import MAX_PARTITIONS
from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.unseen_tagsets import sighted
from tidings.jit import inlined, kernel, read, write
from tidings.text.byte_masks import lowest_bit

# Places in `counters`: what was asked for, what is being written, what happened since the last look, and ever.
SIGHTINGS, EVERY, EVEN_LOADS, CATCH_UP, PANES, HEADS, TOLD = range(7)
SINCE, SENT, NOTIFIED, ADDED, UNHEARD, UNSEEN, COUNTERS = range(7, 14)
CARRIED, RECENT = np.uint64(0), np.uint64(1)  # rows of `loads`: since the plan was adopted, since the last look
HEAD = 5  # columns of a head
_TAKEN_BACK = np.uint32(0xFFFFFFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO, _THREE, _FOUR = np.uint64(2), np.uint64(3), np.uint64(4)


@inlined
def _suits_best(tags, first, last, chosen, owners, frequency, loads, even_loads):  # type: ignore[no-untyped-def]
    """The calculator for the chosen tags of a post.

    The one where the fewest posts must be sent from now on, ties by load; or, for even loads, the other way round.
    """
    best, best_one, best_other = _ZERO, int64(0), int64(0)
    for calculator in range(uint64(loads.shape[1])):
        extra = int64(0)
        for at in range(first, last):
            tag = uint64(tags[at])
            if (chosen >> (at - first)) & _ONE != _ZERO and (owners[tag] >> calculator) & _ONE == _ZERO:
                extra += frequency[tag]
        load = loads[CARRIED, calculator]
        one, other = (load, extra) if even_loads else (extra, load)
        if calculator == _ZERO or one < best_one or (one == best_one and other < best_other):
            best, best_one, best_other = uint64(calculator), one, other
    return best


@inlined
def _notify(post, tags, first, last, calculator, owners, weight, at_post, counters, heads, told):  # type: ignore[no-untyped-def]
    """Write the tags of a post that a calculator owns, unless it owns none."""
    begin = uint64(counters[TOLD])
    end = begin
    for place in range(first, last):
        tag = tags[place]
        told[end] = tag
        end += (owners[uint64(tag)] >> calculator) & _ONE
    if end == begin:
        return
    head = uint64(counters[HEADS])
    heads[head, _ZERO], heads[head, _ONE], heads[head, _TWO] = uint32(post), uint32(calculator), uint32(end - begin)
    heads[head, _THREE], heads[head, _FOUR] = weight, uint32(at_post)
    counters[HEADS] += 1
    counters[TOLD] = int64(end)


@inlined
def _make_up(  # type: ignore[no-untyped-def]
    tags, starts, panes, rows, first, last, chosen, calculator, post, owners, latest, before, counters, heads, told
):
    """Give a calculator the chosen tags, and tell it of all posts of the window that have one which is new to it.

    What it was told of them before is taken back first.
    """
    oldest = panes[post] - counters[PANES]
    bit = _ONE << calculator
    for number in range(last - first):
        tag = uint64(tags[first + number])
        if (chosen >> number) & _ONE == _ZERO or owners[tag] & bit != _ZERO:
            continue
        if counters[CATCH_UP] != 0:
            place = uint64(latest[tag])
            while place != _ZERO:
                one = uint64(rows[place - _ONE])
                if panes[one] <= oldest:
                    break
                begin, end = starts[one], starts[one + _ONE]
                _notify(one, tags, begin, end, calculator, owners, _TAKEN_BACK, post, counters, heads, told)
                owners[tag] |= bit
                _notify(one, tags, begin, end, calculator, owners, uint32(1), post, counters, heads, told)
                owners[tag] &= ~bit
                place = uint64(before[place - _ONE])
        owners[tag] |= bit


@kernel(
    types.void,
    read(uint32, 2),
    read(uint32),
    read(int64),
    write(int64, 2),
    write(int64, 2),
    write(uint64),
    write(uint32),
)
def by_calculator(heads, told, panes, places, labels, starts, tags):  # type: ignore[no-untyped-def]
    """Put notifications one calculator after another: `places` says where its next one goes, and the next tag of it.

    `labels` gets in which slide it was told, of which slide it is, and the weight."""
    begin = _ZERO
    for head in range(uint64(heads.shape[0])):
        calculator, length = uint64(heads[head, _ONE]), uint64(heads[head, _TWO])
        row, at = uint64(places[_ZERO, calculator]), uint64(places[_ONE, calculator])
        labels[_ZERO, row] = panes[uint64(heads[head, _FOUR])]
        labels[_ONE, row] = panes[uint64(heads[head, _ZERO])]
        labels[_TWO, row] = int64(int32(heads[head, _THREE]))
        for number in range(length):
            tags[at + number] = told[begin + number]
        starts[row + _ONE] = at + length
        places[_ZERO, calculator] += 1
        places[_ONE, calculator] += int64(length)
        begin += length


@kernel(types.void, read(uint32), uint64, uint64, write(uint32), write(uint32))
def remember(tags, first, last, latest, before):  # type: ignore[no-untyped-def]
    """Chain the places of each tag, newest first; places count from 1 on."""
    for place in range(first, last):
        tag = uint64(tags[place])
        before[place] = latest[tag]
        latest[tag] = uint32(place + _ONE)


@inlined
def _known(tags, first, last, owners, frequency):  # type: ignore[no-untyped-def]
    """Of the tags of a post: the calculators that own any, those that own all, and how often they were said."""
    some, whole, met = _ZERO, ~_ZERO, int64(0)
    for at in range(first, last):
        tag = uint64(tags[at])
        some |= owners[tag]
        whole &= owners[tag]
        met += frequency[tag]
    return some, whole, met


@inlined
def _remember(tags, first, last, frequency, latest, before):  # type: ignore[no-untyped-def]
    """Note that the tags of a post were said, and where each was said before."""
    for at in range(first, last):
        tag = uint64(tags[at])
        frequency[tag] += 1
        before[at] = latest[tag]
        latest[tag] = uint32(at + _ONE)


@kernel(
    int64,
    read(uint32),
    read(uint64),
    read(int64),
    read(uint32),
    uint64,
    write(uint64),
    write(int64),
    write(uint32),
    write(uint32),
    write(int64, 2),
    write(uint64),
    write(uint32),
    write(uint32),
    write(uint64),
    write(uint64),
    write(uint32),
    write(int64),
    write(uint32, 2),
    write(uint32),
)
def disseminate(  # type: ignore[no-untyped-def]
    tags, starts, panes, rows, post, owners, frequency, latest, before, loads, table, parents, set_tags, state, subset,
    seen, counters, heads, told,
):  # fmt: skip
    """Go on from `post` until it is time for a look at the quality, or there is no room; the post to go on with."""
    set_room = uint64(parents.size) - uint64(1 << MAX_TAGS)
    while post < uint64(panes.size) and state[_ZERO] <= set_room:
        first, last = starts[post], starts[post + _ONE]
        some, whole, met = _known(tags, first, last, owners, frequency)
        needed = int64(MAX_PARTITIONS) + (2 * met if whole == _ZERO and counters[CATCH_UP] != 0 else 0)
        if counters[HEADS] + needed > heads.shape[0] or counters[TOLD] + needed * MAX_TAGS >= told.size:
            break
        if whole == _ZERO:
            counters[UNSEEN] += 1
            chosen = sighted(
                tags, first, last, owners, table, parents, set_tags, state, subset, seen, counters[SIGHTINGS]
            )
            if chosen != _ZERO:
                even_loads = counters[EVEN_LOADS] != 0
                best = _suits_best(tags, first, last, chosen, owners, frequency, loads, even_loads)
                _make_up(
                    tags, starts, panes, rows, first, last, chosen, best, post, owners, latest, before, counters,
                    heads, told,
                )  # fmt: skip
                some |= _ONE << best
                counters[ADDED] += 1
        _remember(tags, first, last, frequency, latest, before)
        left = some
        while left != _ZERO:
            calculator = lowest_bit(left)
            left &= left - _ONE
            _notify(post, tags, first, last, calculator, owners, uint32(1), post, counters, heads, told)
            loads[CARRIED, calculator] += 1
            loads[RECENT, calculator] += 1
            counters[SENT] += 1
        post += _ONE
        if some == _ZERO:
            counters[UNHEARD] += 1
            continue
        counters[NOTIFIED] += 1
        counters[SINCE] += 1
        if counters[SINCE] == counters[EVERY]:
            break
    return int64(post)


@kernel(
    int64,
    read(uint32),
    read(uint64),
    uint64,
    uint64,
    uint64,
    read(uint64),
    write(int64),
    write(uint32, 2),
    write(uint32),
)
def tell_again(tags, starts, post, until, at_post, owners, counters, heads, told):  # type: ignore[no-untyped-def]
    """Tell the owners of posts that came before; the post to go on with when there is no room for all."""
    while post < until:
        if counters[HEADS] + int64(MAX_PARTITIONS) > heads.shape[0]:
            break
        if counters[TOLD] + int64(MAX_PARTITIONS * MAX_TAGS) >= told.size:
            break
        first, last = starts[post], starts[post + _ONE]
        left = _ZERO
        for at in range(first, last):
            left |= owners[uint64(tags[at])]
        while left != _ZERO:
            calculator = lowest_bit(left)
            left &= left - _ONE
            _notify(post, tags, first, last, calculator, owners, uint32(1), at_post, counters, heads, told)
        post += _ONE
    return int64(post)
