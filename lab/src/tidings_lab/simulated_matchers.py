"""A cluster of matchers, simulated in one process: the index is sharded by a plan, posts are routed and matched.

Nothing is estimated. Every matcher gets what the router sends to it and is timed separately on this core; the cluster
is as fast as its slowest matcher.
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
from tidings.index.reader import Index, SegmentView
from tidings.index.segment import build_segment
from tidings.index.sharding import shard_by_term
from tidings.index.spatial_shards import SpatialAnchors
from tidings.matching.segment_matcher import Hits, SegmentMatcher, missing_positions
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.plan.words import WordPlan
from tidings.routing.router import MatcherBatch, RoutedBatch, Router
from tidings.routing.shed import ShedDecision
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.workload import NumberedSubscriptions

_NONE = np.zeros(0, np.uint8)
_NO_SHEDDING = ShedDecision()


class InMemoryIndex(Index):
    """A partitioned index in memory, built like one on disk."""

    def __init__(self, subscribed: NumberedSubscriptions, plan: WordPlan, placement: str, seed: int) -> None:
        record = PlanRecord(plan.algorithm, plan.matchers, seed, placement)
        self._shards: list[list[SegmentView]] = [[] for _ in range(plan.matchers)]
        nothing = ShardTerms.empty(plan.matchers)
        shares = shard_by_term(subscribed.conjunctions, record, plan, subscribed.text_of, lambda: nothing)
        for share in shares:
            segment = build_segment(share.conjunctions, pa.array(share.subscriptions))
            extra = (share.terms, share.phrase_terms, share.split_terms, share.is_shared, SpatialAnchors.empty())
            assert share.anchors is not None
            self._shards[share.number].append(SegmentView(segment, _NONE, share.anchors, *extra))
        records = tuple(tuple(SegmentRecord("", None, len(live.segment)) for live in held) for held in self._shards)
        shared = any(live.is_shared.any() for held in self._shards for live in held)
        count, terms = len(subscribed), len(subscribed.terms)
        super().__init__(Path(), Manifest(1, "", terms, False, False, shared, count, (), records, record, {}))

    def open_shard(self, number: int) -> list[SegmentView]:
        return self._shards[number]

    def phrase_terms(self) -> NDArray[np.uint8]:
        return np.zeros(self.manifest.terms + 1, np.uint8)


@dataclass(frozen=True, slots=True)
class MatcherWork:
    """Posts, matches and CPU seconds (one row per repetition) of every matcher."""

    posts: int
    loads: NDArray[np.int64]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]

    @property
    def best(self) -> NDArray[np.float64]:
        """Return the fastest repetition of each matcher; the slower ones were disturbed."""
        fastest: NDArray[np.float64] = self.seconds.min(axis=0)
        return fastest

    def to_dict(self) -> dict[str, Any]:
        """`imbalance` is that of the posts sent, as in the paper; `time_imbalance` that of the CPU time."""
        slowest, total = float(self.best.max()), float(self.best.sum())
        return {
            "throughput": self.posts / slowest if slowest else 0.0,
            "spread": float(self.loads.sum()) / self.posts,
            "imbalance": _max_over_mean(self.loads),
            "time_imbalance": _max_over_mean(self.best),
            "work_ns": 1e9 * total / self.posts,
            "hits": int(self.hits.sum()),
            "slowest_seconds": [round(float(value), 7) for value in self.seconds.max(axis=1)],
            "all_seconds": [round(float(value), 7) for value in self.seconds.sum(axis=1)],
        }


def _max_over_mean(values: NDArray[Any]) -> float:
    mean = float(values.mean())
    return float(values.max()) / mean if mean else 1.0


class SimulatedCluster:
    """The matchers of a plan and their router."""

    def __init__(self, subscribed: NumberedSubscriptions, plan: WordPlan, placement: str, seed: int) -> None:
        self.index = InMemoryIndex(subscribed, plan, placement, seed)
        self.matchers = plan.matchers
        self._router = Router(self.index)
        self._matchers: dict[int, list[tuple[SegmentView, SegmentMatcher]]] = {}

    def route(self, posts: AnalyzedBatch, shed: ShedDecision = _NO_SHEDDING) -> RoutedBatch:
        return self._router.route(posts, missing_positions(len(posts)), shed)

    def work(self, posts: AnalyzedBatch, repetitions: int) -> MatcherWork:
        """Route posts once and time every matcher on its share."""
        return self.match(self.route(posts).batches, len(posts), repetitions)

    def match(self, shares: Sequence[MatcherBatch], posts: int, repetitions: int) -> MatcherWork:
        loads, hits = np.zeros(self.matchers, np.int64), np.zeros(self.matchers, np.int64)
        seconds = np.zeros((repetitions, self.matchers))
        for share, received, nowhere in _to_batches(shares):
            loads[share.matcher] = len(received)
            for _, matcher in self._shard(share.matcher):
                hits[share.matcher] += len(matcher.match(received, nowhere))  # also grows the buffers
        for turn in range(repetitions):
            for share, received, nowhere in _to_batches(shares):
                start = time.thread_time()
                for _, matcher in self._shard(share.matcher):
                    matcher.match(received, nowhere)
                seconds[turn, share.matcher] = time.thread_time() - start
        return MatcherWork(posts, loads, hits, seconds)

    def find_matches(self, shares: Sequence[MatcherBatch]) -> NDArray[np.uint64]:
        """Return the distinct matches as sorted numbers of post and subscription (32 bits each)."""
        parts = [np.zeros(0, np.uint64)]
        for share, received, nowhere in _to_batches(shares):
            for live, matcher in self._shard(share.matcher):
                parts.append(_pairs(share, live, matcher.match(received, nowhere)))
        whole = np.concatenate(parts)
        return np.unique(whole) if self.index.manifest.shared else np.sort(whole)

    def count_matches(self, shares: Sequence[MatcherBatch], posts: int) -> NDArray[np.int32]:
        """Return the number of matches per post and matcher; -1 if the post is not sent there."""
        counts = np.full((posts, self.matchers), -1, np.int32)
        for share, received, nowhere in _to_batches(shares):
            found = [matcher.match(received, nowhere).counts for _, matcher in self._shard(share.matcher)]
            counts[share.posts, share.matcher] = np.sum(found, axis=0)
        return counts

    def _shard(self, number: int) -> list[tuple[SegmentView, SegmentMatcher]]:
        if number not in self._matchers:
            terms = self.index.manifest.terms
            self._matchers[number] = [
                (live, SegmentMatcher(live.segment, terms)) for live in self.index.open_shard(number)
            ]
        return self._matchers[number]


def _to_batches(shares: Sequence[MatcherBatch]) -> Iterator[tuple[MatcherBatch, AnalyzedBatch, NDArray[np.float64]]]:
    for share in shares:
        bounds = np.ascontiguousarray(np.column_stack([share.starts[:-1], share.starts[1:]]))
        yield share, AnalyzedBatch(share.terms, bounds), missing_positions(len(bounds))


def _pairs(share: MatcherBatch, live: SegmentView, hits: Hits) -> NDArray[np.uint64]:
    subscriptions = np.asarray(live.segment.ids)[hits.subscriptions].astype(np.uint64)
    pairs: NDArray[np.uint64] = share.posts[hits.posts].astype(np.uint64) << np.uint64(32) | subscriptions
    return pairs
