"""The kernels of the tag router: notify calculators of posts, and catch up when a calculator is given a tag.

`heads` has one row per notification: the post, the calculator, the number of tags, the weight (1, or -1 to withdraw
an earlier notification), and the post at which it was sent. `tag_buffer` has the tags of all notifications.
"""

from __future__ import annotations

import numpy as np
from numba import int32, int64, types, uint32, uint64

from tidings.correlate.partition.plan import MAX_PARTITIONS
from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.unseen_tagsets import count_sightings
from tidings.jit import inline, kernel, read, write
from tidings.text.byte_masks import lowest_bit

# Offsets in `counters`: settings, what is being written, what happened since the last quality check, and totals.
SIGHTINGS, CHECK_EVERY, EVEN_LOADS, CATCH_UP, PANES, HEADS, TAGS = range(7)
POSTS_SINCE_CHECK, SENT_SINCE_CHECK, NOTIFIED, ADDITIONS, UNROUTED, UNCOVERED, COUNTERS = range(7, 14)
# Rows of `loads`: since the plan was adopted, since the last quality check.
CARRIED, RECENT = np.uint64(0), np.uint64(1)
HEAD_COLUMNS = 5
_WITHDRAWN = np.uint32(0xFFFFFFFF)  # weight -1
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO, _THREE, _FOUR = np.uint64(2), np.uint64(3), np.uint64(4)


@inline
def _choose_calculator(tags, first, last, chosen, owners, frequency, loads, even_loads):  # type: ignore[no-untyped-def]
    """Return the calculator for the chosen tags of a post.

    It minimises the additional posts to send, ties by load; with `even_loads` the load, ties by additional posts.
    """
    best, best_first, best_second = _ZERO, int64(0), int64(0)
    for calculator in range(uint64(loads.shape[1])):
        extra = int64(0)
        for at in range(first, last):
            tag = uint64(tags[at])
            if (chosen >> (at - first)) & _ONE != _ZERO and (owners[tag] >> calculator) & _ONE == _ZERO:
                extra += frequency[tag]
        load = loads[CARRIED, calculator]
        one, other = (load, extra) if even_loads else (extra, load)
        if calculator == _ZERO or one < best_first or (one == best_first and other < best_second):
            best, best_first, best_second = uint64(calculator), one, other
    return best


@inline
def _notify(post, tags, first, last, calculator, owners, weight, at_post, counters, heads, tag_buffer):  # type: ignore[no-untyped-def]
    """Write a notification with the tags of a post that a calculator owns, if it owns any."""
    begin = uint64(counters[TAGS])
    end = begin
    for place in range(first, last):
        tag = tags[place]
        tag_buffer[end] = tag
        end += (owners[uint64(tag)] >> calculator) & _ONE
    if end == begin:
        return
    head = uint64(counters[HEADS])
    heads[head, _ZERO], heads[head, _ONE], heads[head, _TWO] = uint32(post), uint32(calculator), uint32(end - begin)
    heads[head, _THREE], heads[head, _FOUR] = weight, uint32(at_post)
    counters[HEADS] += 1
    counters[TAGS] = int64(end)


@inline
def _catch_up(  # type: ignore[no-untyped-def]
    tags,
    starts,
    panes,
    rows,
    first,
    last,
    chosen,
    calculator,
    post,
    owners,
    latest,
    before,
    counters,
    heads,
    tag_buffer,
):
    """Give a calculator the chosen tags, and notify it of all posts of the window that have one of the new tags.

    Earlier notifications of these posts are withdrawn first.
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
                _notify(one, tags, begin, end, calculator, owners, _WITHDRAWN, post, counters, heads, tag_buffer)
                owners[tag] |= bit
                _notify(one, tags, begin, end, calculator, owners, uint32(1), post, counters, heads, tag_buffer)
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
def group_by_calculator(heads, tag_buffer, panes, places, labels, starts, tags):  # type: ignore[no-untyped-def]
    """Group notifications by calculator. `places` are the next row and the next tag offset of each calculator.

    `labels` gets the slide in which it was sent, the slide of the post, and the weight.
    """
    begin = _ZERO
    for head in range(uint64(heads.shape[0])):
        calculator, length = uint64(heads[head, _ONE]), uint64(heads[head, _TWO])
        row, at = uint64(places[_ZERO, calculator]), uint64(places[_ONE, calculator])
        labels[_ZERO, row] = panes[uint64(heads[head, _FOUR])]
        labels[_ONE, row] = panes[uint64(heads[head, _ZERO])]
        labels[_TWO, row] = int64(int32(heads[head, _THREE]))
        for number in range(length):
            tags[at + number] = tag_buffer[begin + number]
        starts[row + _ONE] = at + length
        places[_ZERO, calculator] += 1
        places[_ONE, calculator] += int64(length)
        begin += length


@kernel(types.void, read(uint32), uint64, uint64, write(uint32), write(uint32))
def link_occurrences(tags, first, last, latest, before):  # type: ignore[no-untyped-def]
    """Link the occurrences of each tag, newest first. Occurrences are numbered from 1."""
    for place in range(first, last):
        tag = uint64(tags[place])
        before[place] = latest[tag]
        latest[tag] = uint32(place + _ONE)


@inline
def _find_owners(tags, first, last, owners, frequency):  # type: ignore[no-untyped-def]
    """Return for the tags of a post: the calculators that own any, those that own all, and their total frequency."""
    some, whole, frequency_sum = _ZERO, ~_ZERO, int64(0)
    for at in range(first, last):
        tag = uint64(tags[at])
        some |= owners[tag]
        whole &= owners[tag]
        frequency_sum += frequency[tag]
    return some, whole, frequency_sum


@inline
def _count_tags(tags, first, last, frequency, latest, before):  # type: ignore[no-untyped-def]
    """Count the tags of a post and link them to their previous occurrences."""
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
def route_posts(  # type: ignore[no-untyped-def]
    tags, starts, panes, rows, post, owners, frequency, latest, before, loads, table, parents, set_tags, state, subset,
    seen, counters, heads, tag_buffer,
):  # fmt: skip
    """Route from `post` on until a quality check is due or the output is full. Return the next post."""
    set_room = uint64(parents.size) - uint64(1 << MAX_TAGS)
    while post < uint64(panes.size) and state[_ZERO] <= set_room:
        first, last = starts[post], starts[post + _ONE]
        some, whole, frequency_sum = _find_owners(tags, first, last, owners, frequency)
        needed = int64(MAX_PARTITIONS) + (2 * frequency_sum if whole == _ZERO and counters[CATCH_UP] != 0 else 0)
        if counters[HEADS] + needed > heads.shape[0] or counters[TAGS] + needed * MAX_TAGS >= tag_buffer.size:
            break
        if whole == _ZERO:
            counters[UNCOVERED] += 1
            chosen = count_sightings(
                tags, first, last, owners, table, parents, set_tags, state, subset, seen, counters[SIGHTINGS]
            )
            if chosen != _ZERO:
                even_loads = counters[EVEN_LOADS] != 0
                best = _choose_calculator(tags, first, last, chosen, owners, frequency, loads, even_loads)
                _catch_up(
                    tags, starts, panes, rows, first, last, chosen, best, post, owners, latest, before, counters,
                    heads, tag_buffer,
                )  # fmt: skip
                some |= _ONE << best
                counters[ADDITIONS] += 1
        _count_tags(tags, first, last, frequency, latest, before)
        left = some
        while left != _ZERO:
            calculator = lowest_bit(left)
            left &= left - _ONE
            _notify(post, tags, first, last, calculator, owners, uint32(1), post, counters, heads, tag_buffer)
            loads[CARRIED, calculator] += 1
            loads[RECENT, calculator] += 1
            counters[SENT_SINCE_CHECK] += 1
        post += _ONE
        if some == _ZERO:
            counters[UNROUTED] += 1
            continue
        counters[NOTIFIED] += 1
        counters[POSTS_SINCE_CHECK] += 1
        if counters[POSTS_SINCE_CHECK] == counters[CHECK_EVERY]:
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
def replay_posts(tags, starts, post, until, at_post, owners, counters, heads, tag_buffer):  # type: ignore[no-untyped-def]
    """Notify the owners of earlier posts until the output is full. Return the next post."""
    while post < until:
        if counters[HEADS] + int64(MAX_PARTITIONS) > heads.shape[0]:
            break
        if counters[TAGS] + int64(MAX_PARTITIONS * MAX_TAGS) >= tag_buffer.size:
            break
        first, last = starts[post], starts[post + _ONE]
        left = _ZERO
        for at in range(first, last):
            left |= owners[uint64(tags[at])]
        while left != _ZERO:
            calculator = lowest_bit(left)
            left &= left - _ONE
            _notify(post, tags, first, last, calculator, owners, uint32(1), at_post, counters, heads, tag_buffer)
        post += _ONE
    return int64(post)
