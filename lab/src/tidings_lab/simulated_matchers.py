"""So many matchers in one process: an index shared out by a plan, posts routed, each matcher's share really matched.

Nothing is estimated. Every matcher is given what the router gives it and is timed on its own, on this core; all of them
together take as long as the slowest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.manifest import Manifest, PlanRecord, SegmentRecord
from tidings.index.reader import Index, LiveSegment
from tidings.index.segment import build_segment
from tidings.index.sharding import share_out
from tidings.index.spatial_shards import AreaLeads
from tidings.matching.segment_matcher import FlatMatcher, Hits, no_positions
from tidings.plan.placement.shard_terms import Held
from tidings.plan.words import WordPlan
from tidings.routing.router import Routed, Router, Share
from tidings.routing.shed import Shed
from tidings.text.analyzer import Received
from tidings_lab.workload import Subscribed

_NONE = np.zeros(0, np.uint8)
_NO_SHEDDING = Shed()


class HeldIndex(Index):
    """An index in memory: built as one on disk is, without the files."""

    def __init__(self, subscribed: Subscribed, plan: WordPlan, placement: str, seed: int) -> None:
        record = PlanRecord(plan.algorithm, plan.matchers, seed, placement)
        self._shards: list[list[LiveSegment]] = [[] for _ in range(plan.matchers)]
        nothing = Held.nothing(plan.matchers)
        shares = share_out(subscribed.conjunctions, record, plan, subscribed.text_of, lambda: nothing)
        for share in shares:
            segment = build_segment(share.conjunctions, pa.array(share.subscriptions))
            extra = (share.words, share.phrase_words, share.split, share.shared, AreaLeads.nothing())
            assert share.leads is not None
            self._shards[share.number].append(LiveSegment(segment, _NONE, share.leads, *extra))
        records = tuple(tuple(SegmentRecord("", None, len(live.segment)) for live in held) for held in self._shards)
        shared = any(live.shared.any() for held in self._shards for live in held)
        count, terms = len(subscribed), len(subscribed.terms)
        super().__init__(Path(), Manifest(1, "", terms, False, False, shared, count, (), records, record, {}))

    def shard(self, number: int) -> list[LiveSegment]:
        return self._shards[number]

    def phrase_terms(self) -> NDArray[np.uint8]:
        return np.zeros(self.manifest.terms + 1, np.uint8)


@dataclass(frozen=True, slots=True)
class Work:
    """What every matcher did: the posts it got, what it found, and its processor seconds, a row a repetition."""

    posts: int
    loads: NDArray[np.int64]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]

    @property
    def best(self) -> NDArray[np.float64]:
        """The fastest repetition of each matcher: whatever is slower was disturbed."""
        found: NDArray[np.float64] = self.seconds.min(axis=0)
        return found

    def described(self) -> dict[str, Any]:
        """`imbalance` is that of the posts sent, as in the paper; `time_imbalance` that of the time taken."""
        slowest, total = float(self.best.max()), float(self.best.sum())
        return {
            "throughput": self.posts / slowest if slowest else 0.0,
            "spread": float(self.loads.sum()) / self.posts,
            "imbalance": _over_mean(self.loads),
            "time_imbalance": _over_mean(self.best),
            "work_ns": 1e9 * total / self.posts,
            "hits": int(self.hits.sum()),
            "slowest_seconds": [round(float(one), 7) for one in self.seconds.max(axis=1)],
            "all_seconds": [round(float(one), 7) for one in self.seconds.sum(axis=1)],
        }


def _over_mean(values: NDArray[Any]) -> float:
    mean = float(values.mean())
    return float(values.max()) / mean if mean else 1.0


class Fleet:
    """The matchers of a plan, and the router before them."""

    def __init__(self, subscribed: Subscribed, plan: WordPlan, placement: str, seed: int) -> None:
        self.index = HeldIndex(subscribed, plan, placement, seed)
        self.matchers = plan.matchers
        self._router = Router(self.index)
        self._held: dict[int, list[tuple[LiveSegment, FlatMatcher]]] = {}

    def route(self, posts: Received, shed: Shed = _NO_SHEDDING) -> Routed:
        return self._router.route(posts, no_positions(len(posts)), shed)

    def work(self, posts: Received, repetitions: int) -> Work:
        """Route posts once, and let every matcher work through its share again and again."""
        return self.match(self.route(posts).shares, len(posts), repetitions)

    def match(self, shares: Sequence[Share], posts: int, repetitions: int) -> Work:
        loads, hits = np.zeros(self.matchers, np.int64), np.zeros(self.matchers, np.int64)
        seconds = np.zeros((repetitions, self.matchers))
        for share, received, nowhere in _ready(shares):
            loads[share.matcher] = len(received)
            for _, matcher in self._shard(share.matcher):
                hits[share.matcher] += len(matcher.match(received, nowhere))  # also grows its buffers
        for turn in range(repetitions):
            for share, received, nowhere in _ready(shares):
                start = time.thread_time()
                for _, matcher in self._shard(share.matcher):
                    matcher.match(received, nowhere)
                seconds[turn, share.matcher] = time.thread_time() - start
        return Work(posts, loads, hits, seconds)

    def found(self, shares: Sequence[Share]) -> NDArray[np.uint64]:
        """All matches of these shares, each once: post and subscription in one number, ascending."""
        parts = [np.zeros(0, np.uint64)]
        for share, received, nowhere in _ready(shares):
            for live, matcher in self._shard(share.matcher):
                parts.append(_pairs(share, live, matcher.match(received, nowhere)))
        whole = np.concatenate(parts)
        return np.unique(whole) if self.index.manifest.shared else np.sort(whole)

    def worth(self, shares: Sequence[Share], posts: int) -> NDArray[np.int32]:
        """How many matches every post finds at every matcher; -1 where it is not sent."""
        counts = np.full((posts, self.matchers), -1, np.int32)
        for share, received, nowhere in _ready(shares):
            found = [matcher.match(received, nowhere).counts for _, matcher in self._shard(share.matcher)]
            counts[share.posts, share.matcher] = np.sum(found, axis=0)
        return counts

    def _shard(self, number: int) -> list[tuple[LiveSegment, FlatMatcher]]:
        if number not in self._held:
            terms = self.index.manifest.terms
            self._held[number] = [(live, FlatMatcher(live.segment, terms)) for live in self.index.shard(number)]
        return self._held[number]


def _ready(shares: Sequence[Share]) -> Iterator[tuple[Share, Received, NDArray[np.float64]]]:
    for share in shares:
        bounds = np.ascontiguousarray(np.column_stack([share.starts[:-1], share.starts[1:]]))
        yield share, Received(share.terms, bounds), no_positions(len(bounds))


def _pairs(share: Share, live: LiveSegment, hits: Hits) -> NDArray[np.uint64]:
    subscriptions = np.asarray(live.segment.ids)[hits.subscriptions].astype(np.uint64)
    pairs: NDArray[np.uint64] = share.posts[hits.posts].astype(np.uint64) << np.uint64(32) | subscriptions
    return pairs
