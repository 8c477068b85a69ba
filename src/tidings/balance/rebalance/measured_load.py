"""What a stream measures between two local rebalancing steps: the time of each matcher, and the posts of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.matching.load import MatcherLoad
from tidings.routing.stats import Counts, RoutingStats, sum_counts

_MAX_PARTS = 64  # counts of single batches that are kept before they are summed


def _no_counts() -> Counts:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Posts sent by cell and matcher (as in `RoutingStats`), processor seconds of each matcher, and updates.

    Without seconds, the time of a matcher is estimated.
    """

    cells: Counts = field(default_factory=_no_counts)
    sent_by_cell: NDArray[np.number] = field(default_factory=_no_counts)
    seconds: tuple[float, ...] = ()
    updates: int = 0  # inserted and deleted subscriptions


class LoadWindow:
    """Collects measurements of batches. Adding a batch is cheap: posts per cell are summed only if they are needed."""

    def __init__(self) -> None:
        self.posts = 0
        self._seconds: NDArray[np.float64] = np.zeros(0)
        self._parts: list[tuple[Counts, Counts]] = []
        self._first_position: int | None = None
        self._last_position = 0

    def add(self, stats: RoutingStats, loads: Sequence[MatcherLoad], log_position: int) -> None:
        """Add a batch; `log_position` counts the changes of subscriptions so far."""
        seconds = np.zeros(max(len(self._seconds), *(load.matcher + 1 for load in loads), 0))
        seconds[: len(self._seconds)] = self._seconds
        for load in loads:
            seconds[load.matcher] += load.seconds
        self._seconds = seconds
        self._parts.append((stats.cells, stats.sent_by_cell))
        if len(self._parts) > _MAX_PARTS:
            self._parts = [sum_counts(self._parts)]
        if self._first_position is None:
            self._first_position = log_position
        self._last_position = log_position
        self.posts += stats.posts

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(self._seconds.tolist())

    def measured(self) -> MeasuredLoad:
        """Return the sums over all batches."""
        updates = self._last_position - (self._first_position or 0)
        return MeasuredLoad(*sum_counts(self._parts), self.seconds, updates)
