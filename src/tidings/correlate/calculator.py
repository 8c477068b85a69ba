"""The Calculator: counts the tag sets it is notified of over a sliding window, and reports at every slide."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition.subset_counts import CountedSets, SubsetCounts
from tidings.correlate.tag_router import Notifications
from tidings.ragged import take_rows

_MAX_STALE_SETS = 1 << 16  # that are left from past windows before the counters are rebuilt


class Pane(NamedTuple):
    """The tag sets of one slide as they were notified; negative weights withdraw earlier ones."""

    number: int
    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    weights: NDArray[np.int64]


class Calculator:
    """Processes notifications slide by slide. Its state is the panes of its window; counters follow from them.

    A report is (the slide before which the window ends, the sets of two or more tags in it).
    """

    def __init__(self, window_panes: int, min_support: int, replays_window: bool = True) -> None:
        """`replays_window`: whether a new plan starts by notifying of the posts that are still in the window."""
        self._window_panes = window_panes
        self._min_support = min_support
        self._replays_window = replays_window
        self._subsets: SubsetCounts | None = SubsetCounts()  # None: not counted since `restore`
        self._sets_after_rebuild = 0
        self.plan = 0
        self.next_end = 0
        self.panes: list[Pane] = []  # by slide; corrections of earlier slides are separate panes

    def restore(self, plan: int, next_end: int, panes: list[Pane]) -> None:
        """Continue from the state of another calculator; `next_end` is the end of the window to report next."""
        self.plan, self.next_end, self.panes, self._subsets = plan, next_end, panes, None

    def process(self, notifications: Notifications) -> Iterator[tuple[int, CountedSets]]:
        """Count notifications in order. Yield the reports of all windows that end in between."""
        if not len(notifications):
            return
        if notifications.plan != self.plan:
            yield from self._switch_plan(notifications.plan, int(notifications.now[0]))
        cuts = np.flatnonzero(np.diff(notifications.now)) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(notifications)]):
            yield from self.advance(int(notifications.now[first]))
            self._add(notifications, first, last)

    def _switch_plan(self, plan: int, now: int) -> Iterator[tuple[int, CountedSets]]:
        """Start a new plan. If the window is replayed, the old panes are dropped: they must not count twice."""
        yield from self.advance(now)
        self.plan = plan
        if self._replays_window:
            expected = 0 if self._subsets is None else len(self._subsets)
            self.panes, self._subsets, self._sets_after_rebuild = [], SubsetCounts(expected), 0

    def advance(self, until: int) -> Iterator[tuple[int, CountedSets]]:
        """Yield the reports of the windows that end before slide `until`; no earlier posts may follow."""
        while self.panes and self.next_end <= until:
            end = self.next_end
            self._drop_before(end - self._window_panes)
            if self.panes:
                subsets = self._rebuild(0) if self._subsets is None else self._subsets
                report = subsets.report(self._min_support)
                if len(report):
                    yield end, report
                self.next_end = end + 1

    def finish(self, until: int | None = None) -> Iterator[tuple[int, CountedSets]]:
        """Yield the reports of all windows that contain posts and end by slide `until` (default: all)."""
        if self.panes:
            last = self.panes[-1].number + self._window_panes
            yield from self.advance(last if until is None else min(last, until))

    def _add(self, notifications: Notifications, first: int, last: int) -> None:
        """Count notifications that were sent in the same slide, for any slides."""
        for pane in _split_panes(notifications, first, last):
            if not self.panes:
                self.next_end = int(notifications.now[first]) + 1
            self.panes.append(pane)
            if self._subsets is not None:
                self._subsets.add(pane.tags, pane.starts, pane.weights)
        self.panes.sort(key=attrgetter("number"))

    def _drop_before(self, slide: int) -> None:
        dropped = [pane for pane in self.panes if pane.number < slide]
        if not dropped:
            return
        self.panes = self.panes[len(dropped) :]
        if self._subsets is None:
            return
        max_sets = 2 * self._sets_after_rebuild + _MAX_STALE_SETS
        if not self.panes or len(self._subsets) > max_sets:
            self._rebuild(min(len(self._subsets), max_sets))
        else:
            for pane in dropped:
                self._subsets.add(pane.tags, pane.starts, -pane.weights)

    def _rebuild(self, expected: int) -> SubsetCounts:
        """Count all panes from scratch, with space for the expected number of sets."""
        self._subsets = SubsetCounts(expected)
        for pane in self.panes:
            self._subsets.add(pane.tags, pane.starts, pane.weights)
        self._sets_after_rebuild = len(self._subsets)
        return self._subsets


def _split_panes(notifications: Notifications, first: int, last: int) -> Iterator[Pane]:
    """Split notifications by slide."""
    numbers = notifications.panes[first:last]
    if np.all(numbers == numbers[0]):  # always, except for catching up
        starts = notifications.starts[first : last + 1]
        tags = notifications.tags[int(starts[0]) : int(starts[-1])]
        yield Pane(int(numbers[0]), tags, starts - starts[0], notifications.weights[first:last])
        return
    order = np.argsort(numbers, kind="stable") + first
    cuts = np.flatnonzero(np.diff(notifications.panes[order])) + 1
    lengths = np.diff(notifications.starts)
    for rows in np.split(order, cuts):
        tags, starts = take_rows(notifications.tags, notifications.starts[rows], lengths[rows])
        yield Pane(int(notifications.panes[rows[0]]), tags, starts, notifications.weights[rows])
