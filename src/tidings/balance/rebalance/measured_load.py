"""What a stream measures between two local rebalancing steps: the time of each matcher, and the posts of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.matching.load import MatcherLoad
from tidings.routing.stats import Counts, RoutingStats, sum_counts

MIN_CHUNKS = 4  # of a window: their median leaves out one slow batch
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
    """Collects measurements of batches in chunks of about equally many posts.

    Adding a batch is cheap: posts per cell are summed only if they are needed. The time of a matcher is its median over
    the chunks, because the first batch with a version of the index takes longer.
    """

    def __init__(self, min_posts: int) -> None:
        """The window is complete with `MIN_CHUNKS` chunks and this number of posts."""
        self._min_posts = min_posts
        self._posts: list[int] = []  # per chunk, like the seconds
        self._seconds: list[dict[int, float]] = []
        self._parts: list[tuple[Counts, Counts]] = []
        self._positions: list[int] = []  # the first and the last one

    def add(self, stats: RoutingStats, loads: Sequence[MatcherLoad], log_position: int) -> None:
        """Add a batch; `log_position` counts the changes of subscriptions so far."""
        if not self._posts or self._posts[-1] >= self._min_posts / MIN_CHUNKS:
            self._posts.append(0)
            self._seconds.append({})
        self._posts[-1] += stats.posts
        seconds = self._seconds[-1]
        for load in loads:
            seconds[load.matcher] = seconds.get(load.matcher, 0.0) + load.seconds
        self._parts.append((stats.cells, stats.sent_by_cell))
        if len(self._parts) > _MAX_PARTS:
            self._parts = [sum_counts(self._parts)]
        self._positions = [*self._positions[:1], log_position]

    @property
    def is_complete(self) -> bool:
        return len(self._posts) >= MIN_CHUNKS and sum(self._posts) >= self._min_posts

    @property
    def seconds(self) -> tuple[float, ...]:
        """The time of each matcher for all posts of the window, by the median of its time per post."""
        matchers = 1 + max((matcher for chunk in self._seconds for matcher in chunk), default=-1)
        chunks = [(posts, chunk) for posts, chunk in zip(self._posts, self._seconds, strict=True) if posts]
        rates = np.array([[chunk.get(number, 0.0) / posts for number in range(matchers)] for posts, chunk in chunks])
        if not rates.size:
            return ()
        return tuple((np.median(rates, axis=0) * sum(self._posts)).tolist())

    def measured(self) -> MeasuredLoad:
        """Return the sums over all batches."""
        updates = self._positions[-1] - self._positions[0] if self._positions else 0
        return MeasuredLoad(*sum_counts(self._parts), self.seconds, updates)
