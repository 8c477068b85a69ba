"""The interface of matchers, and the matcher over compiled segments."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidings.index.grid import SIZES, build_hash_table, grid_positions
from tidings.index.segment import Segment
from tidings.matching import postings_kernel, spatial_kernel
from tidings.text.analyzer import AnalyzedBatch

_NOTHING_REMOVED = np.zeros(0, np.uint8)
_INITIAL_CAPACITY = 1 << 14


@dataclass(frozen=True, slots=True)
class Hits:
    """Matches of a batch, grouped by post: subscriptions (rows of the segment) and the number per post."""

    subscriptions: NDArray[np.uint32]
    counts: NDArray[np.uint32]

    @property
    def posts(self) -> NDArray[np.uint32]:
        """The post of each match, as a row of the batch."""
        return np.repeat(np.arange(len(self.counts), dtype=np.uint32), self.counts)

    def __len__(self) -> int:
        return len(self.subscriptions)


class Matcher(Protocol):
    """Finds all subscriptions that each post matches, without duplicates."""

    def match(self, batch: AnalyzedBatch, positions: NDArray[np.float64]) -> Hits:
        """Return the matches; `positions` has longitude and latitude of every post, NaN if it has none."""
        ...


class SegmentMatcher:
    """Matches against one segment. Reuses buffers between batches; not thread-safe."""

    def __init__(self, segment: Segment, term_count: int, removed: NDArray[np.uint8] = _NOTHING_REMOVED) -> None:
        self._segment = segment
        self._pairs = np.empty((_INITIAL_CAPACITY, 2), np.uint32)
        self._spatial_pairs = np.empty((_INITIAL_CAPACITY if len(segment.cell_keys) else 1, 2), np.uint32)
        self._hits = np.empty(_INITIAL_CAPACITY, np.uint32)
        self._shared = np.empty(0, np.uint32)
        self._seen = np.zeros(len(segment) // 8 + 1, np.uint8)
        self._cell_table = build_hash_table(segment.cell_keys)
        self._undecided = np.empty(int(np.diff(segment.cell_start).max(initial=0)) + 1, np.uint32)
        self._fit_terms(term_count)
        self._fit_removed(removed)

    def adapt(self, term_count: int, removed: NDArray[np.uint8]) -> SegmentMatcher:
        """Return a matcher for another version of an index that has the same segment.

        It shares all tables that stay the same, and the buffers: use one of them at a time.
        """
        matcher = copy(self)
        if term_count != self._term_count:
            matcher._fit_terms(term_count)
        if not np.array_equal(removed, self._removed):
            matcher._fit_removed(removed)
        return matcher

    def _fit_terms(self, term_count: int) -> None:
        self._term_count = term_count
        self._posting_start = self._segment.posting_start(term_count)
        self._bitmap = np.zeros(term_count // 8 + 1, np.uint8)
        self._anchor_sizes = spatial_kernel.anchor_cell_sizes(self._segment.cell_keys, term_count)

    def _fit_removed(self, removed: NDArray[np.uint8]) -> None:
        s, self._removed = self._segment, removed
        self._reporters = np.empty(len(s.second_term), np.uint32)
        entry_counts = np.zeros(len(s), np.uint8)
        postings_kernel.list_reporters(s.subscriber_start, s.subscribers, removed, entry_counts, self._reporters)

    def match(self, batch: AnalyzedBatch, positions: NDArray[np.float64]) -> Hits:
        pairs = self._find(batch)
        if len(self._segment.cell_keys):
            pairs = _sort_by_post(pairs, self._find_spatial(batch, positions))
        if len(self._segment.residual_entries):
            pairs = self._verify(pairs, batch, positions)
        return self._report(pairs, len(batch))

    def _find(self, batch: AnalyzedBatch) -> NDArray[np.uint32]:
        if not len(self._segment.anchors):
            return self._pairs[:0]
        s, state = self._segment, np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        posts = (batch.terms, batch.bounds)
        entries = (self._posting_start, s.second_term, s.third_fourth_term)
        scratch = (self._bitmap, postings_kernel.term_buffer(batch.bounds))
        while not postings_kernel.find_candidates(*posts, *entries, *scratch, self._pairs, state):
            self._pairs = _double(self._pairs)
        return self._pairs[: int(state[postings_kernel.USED])]

    def _find_spatial(self, batch: AnalyzedBatch, positions: NDArray[np.float64]) -> NDArray[np.uint32]:
        s, state = self._segment, np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        cell_positions = np.empty((len(batch), SIZES), np.uint64)
        grid_positions(positions.ravel(), cell_positions)
        posts = (batch.terms, batch.bounds, cell_positions, positions.ravel())
        lists = (self._anchor_sizes, self._cell_table, s.cell_keys, s.cell_start, s.cell_postings)
        entries = (s.second_term, s.third_fourth_term, s.entry_region, s.regions)
        anchors = postings_kernel.term_buffer(batch.bounds)
        scratch = (self._bitmap, anchors, np.empty((SIZES * len(anchors), 3), np.uint64), self._undecided)
        while not spatial_kernel.find_spatial_candidates(
            *posts, *lists, *entries, *scratch, self._spatial_pairs, state
        ):
            self._spatial_pairs = _double(self._spatial_pairs)
        return self._spatial_pairs[: int(state[postings_kernel.USED])]

    def _verify(
        self, pairs: NDArray[np.uint32], batch: AnalyzedBatch, positions: NDArray[np.float64]
    ) -> NDArray[np.uint32]:
        s = self._segment
        residuals = (s.residual_entries, s.residual_start, s.residual_code, s.regions)
        posts = (batch.terms, batch.bounds)
        count = postings_kernel.verify_residuals(
            pairs, *posts, *residuals, positions.ravel(), s.third_fourth_term, self._bitmap
        )
        return pairs[:count]

    def _report(self, pairs: NDArray[np.uint32], posts: int) -> Hits:
        s, state = self._segment, np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        if len(self._shared) < len(pairs):
            self._shared = np.empty(len(pairs), np.uint32)
        counts = np.zeros(posts, np.uint32)
        arguments = (pairs, self._reporters, s.subscriber_start, s.subscribers, self._removed, self._seen, self._shared)
        while not postings_kernel.report_subscriptions(*arguments, self._hits, counts, state):
            self._hits = np.concatenate([self._hits, np.empty_like(self._hits)])
        return Hits(self._hits[: int(state[postings_kernel.USED])].copy(), counts)


def missing_positions(posts: int) -> NDArray[np.float64]:
    """Return NaN positions for this number of posts."""
    return np.full((posts, 2), np.nan)


def _double(buffer: NDArray[np.uint32]) -> NDArray[np.uint32]:
    bigger = np.empty((2 * len(buffer), 2), np.uint32)
    bigger[: len(buffer)] = buffer
    return bigger


def _sort_by_post(pairs: NDArray[np.uint32], spatial: NDArray[np.uint32]) -> NDArray[np.uint32]:
    if not len(pairs):
        return spatial
    merged = np.concatenate([pairs, spatial])
    return np.ascontiguousarray(merged[np.argsort(merged[:, 0], kind="stable")])
