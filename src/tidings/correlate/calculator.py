"""The calculator: counters of all sets of tags it is told of, over a sliding window, and a report at every slide."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition.subset_counts import Counted, Subsets
from tidings.correlate.tag_router import Notifications
from tidings.ragged import take_rows

_FEW_SETS = 1 << 16  # as many may be left over from the past before counting starts anew


class Pane(NamedTuple):
    """The tag sets of one slide, as the calculator was told of them; some are taken back again."""

    number: int
    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    weights: NDArray[np.int64]


class Calculator:
    """Is told of posts slide by slide. What it holds is the tag sets of its window; everything else follows from them.

    A report is (the slide before which the window ends, the sets of two tags or more in it).
    """

    def __init__(self, panes: int, min_support: int, told_again: bool = True) -> None:
        """`told_again` says whether a new plan begins with the posts that are still in the window."""
        self._panes = panes
        self._min_support = min_support
        self._forget_past = told_again
        self._subsets: Subsets | None = Subsets()  # None: not counted since the posts were given back to it
        self._fresh = 0
        self.plan = 0
        self.next_end = 0
        self.held: list[Pane] = []  # by slide; what is made up for comes as a pane of its own

    def restore(self, plan: int, next_end: int, held: list[Pane]) -> None:
        """Go on from what another one had: its plan, the end of the window it would report next, what it held."""
        self.plan, self.next_end, self.held, self._subsets = plan, next_end, held, None

    def take(self, told: Notifications) -> Iterator[tuple[int, Counted]]:
        """Count what was told, in the order it was; the reports of all windows that ended meanwhile."""
        if not len(told):
            return
        if told.plan != self.plan:
            yield from self._start_anew(told.plan, int(told.now[0]))
        cuts = np.flatnonzero(np.diff(told.now)) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(told)]):
            yield from self.advance(int(told.now[first]))
            self._hold(told, first, last)

    def _start_anew(self, plan: int, now: int) -> Iterator[tuple[int, Counted]]:
        """A new plan: what must be known of the past is told again, if at all, so the old must not count twice."""
        yield from self.advance(now)
        self.plan = plan
        if self._forget_past:
            self.held, self._subsets, self._fresh = [], Subsets(0 if self._subsets is None else len(self._subsets)), 0

    def advance(self, until: int) -> Iterator[tuple[int, Counted]]:
        """The reports of the windows that end before slide `until`; no more posts of earlier slides may come."""
        while self.held and self.next_end <= until:
            end = self.next_end
            self._drop(end - self._panes)
            if self.held:
                report = self._counted().report(self._min_support)
                if len(report):
                    yield end, report
                self.next_end = end + 1

    def finish(self, until: int | None = None) -> Iterator[tuple[int, Counted]]:
        """The reports of all windows that hold any post and end by slide `until`, if that is given."""
        if self.held:
            last = self.held[-1].number + self._panes
            yield from self.advance(last if until is None else min(last, until))

    def _hold(self, told: Notifications, first: int, last: int) -> None:
        """Count notifications that came in one slide, whichever slides they are about."""
        for pane in _panes(told, first, last):
            if not self.held:
                self.next_end = int(told.now[first]) + 1
            self.held.append(pane)
            if self._subsets is not None:
                self._subsets.add(pane.tags, pane.starts, pane.weights)
        self.held.sort(key=attrgetter("number"))

    def _drop(self, before: int) -> None:
        """Forget the slides that the window has left behind."""
        gone = [pane for pane in self.held if pane.number < before]
        if not gone:
            return
        self.held = self.held[len(gone) :]
        if self._subsets is None:
            return
        if not self.held or len(self._subsets) > 2 * self._fresh + _FEW_SETS:
            self._count_anew(min(len(self._subsets), 2 * self._fresh + _FEW_SETS))
        else:
            for pane in gone:
                self._subsets.add(pane.tags, pane.starts, -pane.weights)

    def _counted(self) -> Subsets:
        return self._count_anew(0) if self._subsets is None else self._subsets

    def _count_anew(self, expected: int) -> Subsets:
        self._subsets = Subsets(expected)
        for pane in self.held:
            self._subsets.add(pane.tags, pane.starts, pane.weights)
        self._fresh = len(self._subsets)
        return self._subsets


def _panes(told: Notifications, first: int, last: int) -> Iterator[Pane]:
    """These notifications slide by slide."""
    numbers = told.panes[first:last]
    if np.all(numbers == numbers[0]):  # but for what is made up for
        starts = told.starts[first : last + 1]
        tags = told.tags[int(starts[0]) : int(starts[-1])]
        yield Pane(int(numbers[0]), tags, starts - starts[0], told.weights[first:last])
        return
    order = np.argsort(numbers, kind="stable") + first
    cuts = np.flatnonzero(np.diff(told.panes[order])) + 1
    lengths = np.diff(told.starts)
    for rows in np.split(order, cuts):
        tags, starts = take_rows(told.tags, told.starts[rows], lengths[rows])
        yield Pane(int(told.panes[rows[0]]), tags, starts, told.weights[rows])
