"""What every matcher promises, and the one over compiled segments that does the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidings.index.grid import SIZES, hash_table, places_at
from tidings.index.segment import Segment
from tidings.matching import postings_kernel, spatial_kernel
from tidings.text.analyzer import Received

_NOTHING_REMOVED = np.zeros(0, np.uint8)
_FIRST_ROOM = 1 << 14


@dataclass(frozen=True, slots=True)
class Hits:
    """Matches of a batch, post by post: the subscriptions (their places in the segment), and how many each post has."""

    subscriptions: NDArray[np.uint32]
    counts: NDArray[np.uint32]

    @property
    def posts(self) -> NDArray[np.uint32]:
        """The post of each match: its place in the batch."""
        return np.repeat(np.arange(len(self.counts), dtype=np.uint32), self.counts)

    def __len__(self) -> int:
        return len(self.subscriptions)


class Matcher(Protocol):
    """Finds all subscriptions each post satisfies, each once."""

    def match(self, received: Received, positions: NDArray[np.float64]) -> Hits:
        """`positions` holds longitude and latitude of every post, NaN where it has none."""
        ...


class FlatMatcher:
    """Matches against one segment. Keeps buffers between batches; not for two threads at once."""

    def __init__(self, segment: Segment, term_count: int, removed: NDArray[np.uint8] = _NOTHING_REMOVED) -> None:
        self._segment = segment
        self._removed = removed
        self._list_start = segment.list_start(term_count)
        self._bitmap = np.zeros(term_count // 8 + 1, np.uint8)
        self._pairs = np.empty((_FIRST_ROOM, 2), np.uint32)
        self._located = np.empty((_FIRST_ROOM if len(segment.cell_keys) else 1, 2), np.uint32)
        self._hits = np.empty(_FIRST_ROOM, np.uint32)
        self._others = np.empty(0, np.uint32)
        self._reporters = np.empty(len(segment.second), np.uint32)
        is_held = np.zeros(len(segment), np.uint8)
        postings_kernel.list_reporters(segment.holder_start, segment.holders, removed, is_held, self._reporters)
        self._seen = np.zeros(len(segment) // 8 + 1, np.uint8)
        self._leading = spatial_kernel.leading_words(segment.cell_keys, term_count)
        self._cell_table = hash_table(segment.cell_keys)
        self._doubts = np.empty(int(np.diff(segment.cell_start).max(initial=0)) + 1, np.uint32)

    def match(self, received: Received, positions: NDArray[np.float64]) -> Hits:
        pairs = self._find(received)
        if len(self._segment.cell_keys):
            pairs = _in_post_order(pairs, self._locate(received, positions))
        if len(self._segment.programmed):
            pairs = self._verify(pairs, received, positions)
        return self._report(pairs, len(received))

    def _find(self, received: Received) -> NDArray[np.uint32]:
        s, state = self._segment, np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        listed = postings_kernel.room_for_words(received.bounds)
        arguments = (received.terms, received.bounds, self._list_start, s.second, s.rest, self._bitmap, listed)
        while not postings_kernel.find(*arguments, self._pairs, state):
            self._pairs = _doubled(self._pairs)
        return self._pairs[: int(state[postings_kernel.USED])]

    def _locate(self, received: Received, positions: NDArray[np.float64]) -> NDArray[np.uint32]:
        s, state = self._segment, np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        places = np.empty((len(received), SIZES), np.uint64)
        places_at(positions.ravel(), places)
        posts = (received.terms, received.bounds, places, positions.ravel())
        lists = (self._leading, self._cell_table, s.cell_keys, s.cell_start, s.cell_items)
        entries = (s.second, s.rest, s.asked, s.regions)
        listed = postings_kernel.room_for_words(received.bounds)
        scratch = (self._bitmap, listed, np.empty((SIZES * len(listed), 3), np.uint64), self._doubts)
        while not spatial_kernel.locate(*posts, *lists, *entries, *scratch, self._located, state):
            self._located = _doubled(self._located)
        return self._located[: int(state[postings_kernel.USED])]

    def _verify(
        self, pairs: NDArray[np.uint32], received: Received, positions: NDArray[np.float64]
    ) -> NDArray[np.uint32]:
        s = self._segment
        programs = (s.programmed, s.program_start, s.code, s.regions)
        posts = (received.terms, received.bounds)
        kept = postings_kernel.verify(pairs, *posts, *programs, positions.ravel(), s.rest, self._bitmap)
        return pairs[:kept]

    def _report(self, pairs: NDArray[np.uint32], posts: int) -> Hits:
        s, state = self._segment, np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        if len(self._others) < len(pairs):
            self._others = np.empty(len(pairs), np.uint32)
        counts = np.zeros(posts, np.uint32)
        arguments = (pairs, self._reporters, s.holder_start, s.holders, self._removed, self._seen, self._others)
        while not postings_kernel.report(*arguments, self._hits, counts, state):
            self._hits = np.concatenate([self._hits, np.empty_like(self._hits)])
        return Hits(self._hits[: int(state[postings_kernel.USED])].copy(), counts)


def no_positions(posts: int) -> NDArray[np.float64]:
    """The positions of posts that have none."""
    return np.full((posts, 2), np.nan)


def _doubled(buffer: NDArray[np.uint32]) -> NDArray[np.uint32]:
    bigger = np.empty((2 * len(buffer), 2), np.uint32)
    bigger[: len(buffer)] = buffer
    return bigger


def _in_post_order(found: NDArray[np.uint32], located: NDArray[np.uint32]) -> NDArray[np.uint32]:
    if not len(found):
        return located
    pairs = np.concatenate([found, located])
    return np.ascontiguousarray(pairs[np.argsort(pairs[:, 0], kind="stable")])
