"""The Tracker: of all reports of a tag set in a window, it chooses the one with the most support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition.subset_counts import CountedSets
from tidings.correlate.partition.tagset_trie import TagSetTrie
from tidings.ragged import take_rows


@dataclass(frozen=True, slots=True)
class Reports:
    """Counted tag sets, each with the slide before which its window ends and the calculator that reported it."""

    ends: NDArray[np.int64]
    calculators: NDArray[np.uint8]
    counted: CountedSets

    def __len__(self) -> int:
        return len(self.ends)

    @classmethod
    def of(cls, end: int, calculator: int, counted: CountedSets) -> Reports:
        size = len(counted)
        return cls(np.full(size, end, np.int64), np.full(size, calculator, np.uint8), counted)

    @classmethod
    def concat(cls, parts: list[Reports]) -> Reports:
        """Return all reports, one after another."""
        none = np.zeros(0, np.int64)
        lengths = [np.diff(part.counted.starts) for part in parts]
        counted = CountedSets(
            np.concatenate([np.zeros(0, np.uint32), *(part.counted.tags for part in parts)]),
            np.cumsum(np.concatenate([np.zeros(1, np.uint64), *lengths]), dtype=np.uint64),
            np.concatenate([none, *(part.counted.support for part in parts)]),
            np.concatenate([none, *(part.counted.union for part in parts)]),
        )
        ends = np.concatenate([none, *(part.ends for part in parts)])
        return cls(ends, np.concatenate([np.zeros(0, np.uint8), *(part.calculators for part in parts)]), counted)

    def take(self, rows: NDArray[np.integer]) -> Reports:
        counted = self.counted
        tags, starts = take_rows(counted.tags, counted.starts[rows], np.diff(counted.starts)[rows])
        kept = CountedSets(tags, starts, counted.support[rows], counted.union[rows])
        return Reports(self.ends[rows], self.calculators[rows], kept)

    @property
    def jaccard(self) -> NDArray[np.float64]:
        return np.divide(self.counted.support, self.counted.union)


def choose_reports(reports: Reports) -> Reports:
    """Choose one report per window and tag set: most support, then larger union, then lower calculator.

    A report that arrives twice changes nothing. The result is ordered by window, then as first reported.
    """
    sets = number_tag_sets(reports)
    order = np.lexsort((reports.calculators, -reports.counted.union, -reports.counted.support, sets))
    first = np.ones(len(order), bool)
    np.not_equal(sets[order[1:]], sets[order[:-1]], out=first[1:])
    chosen = order[first]
    return reports.take(chosen[np.argsort(reports.ends[chosen], kind="stable")])


def number_tag_sets(reports: Reports) -> NDArray[np.uint32]:
    """Return equal numbers for equal tag sets in the same window: the window counts as a first tag."""
    _, windows = np.unique(reports.ends, return_inverse=True)
    counted, size = reports.counted, len(reports)
    places = counted.starts[:-1].astype(np.int64)
    rows = np.insert(counted.tags, places, windows.astype(np.uint32))
    starts = np.add(counted.starts, np.arange(size + 1, dtype=np.uint64), dtype=np.uint64)
    return TagSetTrie().find_or_add_rows(rows, starts)


class Tracker:
    """Collects reports until their windows are closed. Later reports are counted and ignored."""

    def __init__(self) -> None:
        self._open: list[Reports] = []
        self._closed = np.iinfo(np.int64).min
        self.late = 0

    def take(self, reports: Reports) -> None:
        on_time = reports.ends > self._closed
        self.late += int((~on_time).sum())
        self._open.append(reports.take(np.flatnonzero(on_time)))

    def close(self, until: int) -> Reports:
        """Return the coefficients of all windows that end with slide `until` or before."""
        waiting = Reports.concat(self._open)
        is_done = waiting.ends <= until
        self._open = [waiting.take(np.flatnonzero(~is_done))]
        self._closed = max(self._closed, until)
        return choose_reports(waiting.take(np.flatnonzero(is_done)))
