"""Statistics of routing: matchers per post, shed posts, posts per cell, and a sample of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.routing.router import RoutedBatch

Counts = NDArray[np.int64]
Positions = NDArray[np.float64]  # longitude and latitude; NaN if a post has no position
_NO_TEXTS = pa.nulls(0, pa.large_string())  # pa.array would import pandas


def _no_counts() -> Counts:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class RoutingStats:
    """Statistics of some posts: ``spread[n]`` of them reach `n` matchers without shedding.

    `shed_by_matcher` counts the posts not sent to each matcher, ``shed_by_anchor[i]`` those of them with ``anchors[i]``
    (anchor << 16 | matcher), ``sent_by_cell[i]`` the posts sent for ``cells[i]`` (cell · matchers + matcher).
    """

    spread: Counts = field(default_factory=_no_counts)
    shed_by_matcher: Counts = field(default_factory=_no_counts)
    anchors: Counts = field(default_factory=_no_counts)
    shed_by_anchor: Counts = field(default_factory=_no_counts)
    sample_texts: pa.Array = field(default_factory=lambda: _NO_TEXTS)
    sample_positions: Positions = field(default_factory=lambda: np.zeros((0, 2)))
    cells: Counts = field(default_factory=_no_counts)
    sent_by_cell: Counts = field(default_factory=_no_counts)

    @classmethod
    def from_routed(
        cls, routed: RoutedBatch, texts: pa.Array = _NO_TEXTS, positions: Positions | None = None
    ) -> RoutingStats:
        sample = (texts, np.full((len(texts), 2), np.nan) if positions is None else positions)
        matchers = len(routed.spread) - 1
        cells = _sent_by_cell(routed, matchers)
        if routed.shed is None:
            return cls(routed.spread, _no_counts(), _no_counts(), _no_counts(), *sample, *cells)
        by_anchor = routed.shed.by_anchor()
        return cls(routed.spread, routed.shed.by_matcher[:matchers], *by_anchor, *sample, *cells)

    @property
    def posts(self) -> int:
        return int(self.spread.sum())

    @property
    def shed(self) -> int:
        return int(self.shed_by_matcher.sum())


def merge_stats(stats: Iterable[RoutingStats]) -> RoutingStats:
    """Return the sum of several statistics."""
    parts = list(stats)
    return RoutingStats(
        _sum([part.spread for part in parts]),
        _sum([part.shed_by_matcher for part in parts]),
        *sum_counts([(part.anchors, part.shed_by_anchor) for part in parts]),
        pa.concat_arrays([_NO_TEXTS, *(part.sample_texts for part in parts)]),
        np.concatenate([np.zeros((0, 2)), *(part.sample_positions for part in parts)]),
        *sum_counts([(part.cells, part.sent_by_cell) for part in parts]),
    )


def sum_counts(pairs: Sequence[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    """Sum several (keys, counts); return the keys ascending and their counts."""
    keys, rows = np.unique(np.concatenate([_no_counts(), *(some_keys for some_keys, _ in pairs)]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, rows, np.concatenate([_no_counts(), *(some_counts for _, some_counts in pairs)]))
    return keys, counts


def _sent_by_cell(routed: RoutedBatch, matchers: int) -> tuple[Counts, Counts]:
    if routed.cells is None:
        return _no_counts(), _no_counts()
    cells = routed.cells.astype(np.int64) * matchers
    sent = [cells[batch.posts] + batch.matcher for batch in routed.batches]
    keys, counts = np.unique(np.concatenate([_no_counts(), *sent]), return_counts=True)
    return keys, counts.astype(np.int64)


def _sum(counts: list[Counts]) -> Counts:
    total = np.zeros(max(map(len, counts), default=0), np.int64)
    for part in counts:
        total[: len(part)] += part
    return total
