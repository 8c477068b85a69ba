"""A cluster of matchers, simulated in one process: the index is sharded by a plan, posts are routed and matched.

Nothing is estimated. Every matcher gets what the router sends to it and is timed separately on this core; the cluster
is as fast as its slowest matcher. Routing and merging are timed too: they run on any machine, so they are no bottleneck
of a cluster, but they cost time. Contenders are measured in turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.manifest import Manifest, PlanRecord, SegmentRecord
from tidings.index.reader import Index, SegmentView
from tidings.index.segment import build_segment
from tidings.index.sharding import shard_by_term
from tidings.index.spatial_shards import SpatialAnchors
from tidings.matching.dedup import drop_repeated, hits_schema, merge_hits
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.plan.words import WordPlan
from tidings.routing.router import MatcherBatch, RoutedBatch, Router
from tidings.routing.shed import ShedDecision
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.workload import NumberedSubscriptions

_NONE = np.zeros(0, np.uint8)
_NO_SHEDDING = ShedDecision()
_HITS = hits_schema(pa.int64())


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
class ShardHits:
    """What one matcher found in a batch: the post and the subscription of each hit; whether others may find it too."""

    posts: NDArray[np.uint32]
    subscriptions: NDArray[np.int64]
    is_shared: NDArray[np.bool_]

    def to_reply(self) -> pa.RecordBatch:
        """Return the hits as they reach the merge stage."""
        return pa.record_batch([self.posts, self.subscriptions, self.is_shared], schema=_HITS)


def list_pairs(hits: Sequence[ShardHits]) -> NDArray[np.uint64]:
    """Return the distinct hits as sorted numbers of post and subscription (32 bits each)."""
    distinct = drop_repeated([found.to_reply() for found in hits])
    posts, subscriptions = (distinct[name].to_numpy().astype(np.uint64) for name in ("post", "subscription_id"))
    pairs: NDArray[np.uint64] = np.sort(posts << np.uint64(32) | subscriptions)
    return pairs


class Routed(Protocol):
    """What a router returns."""

    @property
    def batches(self) -> list[MatcherBatch]: ...


class Cluster(Protocol):
    """Matchers and their router."""

    @property
    def matchers(self) -> int: ...

    def route(self, posts: AnalyzedBatch, shed: ShedDecision = ...) -> Routed: ...

    def match_share(self, share: MatcherBatch) -> list[Any]:
        """Return what the segments of one matcher find; the timed part."""
        ...

    def locate(self, share: MatcherBatch, found: list[Any]) -> ShardHits:
        """Return the posts and subscriptions of what was found; not timed."""
        ...


@dataclass(frozen=True, slots=True)
class MatcherWork:
    """Posts, matches, and CPU seconds of every matcher, of routing and of merging; one row per repetition."""

    posts: int
    loads: NDArray[np.int64]
    hits: NDArray[np.int64]
    matches: int
    seconds: NDArray[np.float64]
    route_seconds: NDArray[np.float64]
    merge_seconds: NDArray[np.float64]

    @property
    def best(self) -> NDArray[np.float64]:
        """Return the fastest repetition of each matcher; the slower ones were disturbed."""
        fastest: NDArray[np.float64] = self.seconds.min(axis=0)
        return fastest

    @property
    def throughput(self) -> float:
        """Return the posts/s of the slowest matcher."""
        slowest = float(self.best.max())
        return self.posts / slowest if slowest else 0.0

    def to_dict(self) -> dict[str, Any]:
        """`imbalance` is that of the posts sent, as in the paper; `time_imbalance` that of the CPU time.

        `post_throughput` is equation 3.6: every post costs a matcher the same; 1 is the rate of a single matcher.
        """
        total = float(self.best.sum())
        return {
            "throughput": self.throughput,
            "post_throughput": self.posts / max(1, int(self.loads.max())),
            "spread": float(self.loads.sum()) / self.posts,
            "imbalance": _max_over_mean(self.loads),
            "time_imbalance": _max_over_mean(self.best),
            "work_ns": 1e9 * total / self.posts,
            "route_ns": 1e9 * float(self.route_seconds.min()) / self.posts,
            "merge_ns": 1e9 * float(self.merge_seconds.min()) / self.posts,
            "hits": int(self.hits.sum()),
            "matches": self.matches,
            "slowest_seconds": [round(float(value), 7) for value in self.seconds.max(axis=1)],
            "all_seconds": [round(float(value), 7) for value in self.seconds.sum(axis=1)],
        }


def _max_over_mean(values: NDArray[Any]) -> float:
    mean = float(values.mean())
    return float(values.max()) / mean if mean else 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """A cluster and the posts it gets, of which it may shed some."""

    cluster: Cluster
    posts: AnalyzedBatch
    shed: ShedDecision = _NO_SHEDDING


def measure_in_turns(runs: Sequence[Run], repetitions: int) -> list[MatcherWork]:
    """Measure every run `repetitions` times, in turns: what disturbs the machine disturbs all of them."""
    measured = [_Measurement(run) for run in runs]
    for one in measured:
        one.take_turn()  # warm-up, not counted: it grows the buffers
    for _ in range(repetitions):
        for one in measured:
            one.seconds.append(one.take_turn())
    return [one.work() for one in measured]


@dataclass
class _Measurement:
    run: Run
    loads: NDArray[np.int64] = field(init=False)
    hits: NDArray[np.int64] = field(init=False)
    matches: int = 0
    seconds: list[NDArray[np.float64]] = field(default_factory=list)  # of every matcher, routing, merging

    def take_turn(self) -> NDArray[np.float64]:
        """Route, match on every matcher, merge. Returns the CPU seconds of each matcher, of routing and of merging."""
        cluster, seconds, hits = self.run.cluster, np.zeros(self.run.cluster.matchers + 2), []
        self.loads, self.hits = np.zeros((2, cluster.matchers), np.int64)
        start = time.thread_time()
        shares = cluster.route(self.run.posts, self.run.shed).batches
        seconds[-2] = time.thread_time() - start
        for share in shares:
            start = time.thread_time()
            found = cluster.match_share(share)
            seconds[share.matcher] = time.thread_time() - start
            hits.append(cluster.locate(share, found))
            self.loads[share.matcher], self.hits[share.matcher] = len(share.posts), len(hits[-1].posts)
        replies = [found.to_reply() for found in hits]
        start = time.thread_time()
        ids, _ = merge_hits(replies, len(self.run.posts))
        seconds[-1] = time.thread_time() - start
        self.matches = len(ids)
        return seconds

    def work(self) -> MatcherWork:
        seconds = np.array(self.seconds)
        columns = (seconds[:, :-2], seconds[:, -2], seconds[:, -1])
        return MatcherWork(len(self.run.posts), self.loads, self.hits, self.matches, *columns)


class SimulatedCluster:
    """The matchers of a plan and their router, as in the product."""

    def __init__(self, subscribed: NumberedSubscriptions, plan: WordPlan, placement: str, seed: int) -> None:
        self.index = InMemoryIndex(subscribed, plan, placement, seed)
        self.matchers = plan.matchers
        self._router = Router(self.index)
        self._matchers: dict[int, list[tuple[SegmentView, SegmentMatcher]]] = {}

    def route(self, posts: AnalyzedBatch, shed: ShedDecision = _NO_SHEDDING) -> RoutedBatch:
        return self._router.route(posts, missing_positions(len(posts)), shed)

    def work(self, posts: AnalyzedBatch, repetitions: int) -> MatcherWork:
        """Measure this cluster alone."""
        return measure_in_turns([Run(self, posts)], repetitions)[0]

    def match_share(self, share: MatcherBatch) -> list[Any]:
        received = to_batch(share)
        nowhere = missing_positions(len(received))
        return [matcher.match(received, nowhere) for _, matcher in self._shard(share.matcher)]

    def locate(self, share: MatcherBatch, found: list[Any]) -> ShardHits:
        parts = []
        for (live, _), hits in zip(self._shard(share.matcher), found, strict=True):
            subscriptions = np.asarray(live.segment.ids)[hits.subscriptions].astype(np.int64)
            parts.append((share.posts[hits.posts], subscriptions, live.is_shared[hits.subscriptions] != 0))
        return ShardHits(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def find_matches(self, shares: Sequence[MatcherBatch]) -> NDArray[np.uint64]:
        """Return the distinct matches as sorted numbers of post and subscription (32 bits each)."""
        return list_pairs([self.locate(share, self.match_share(share)) for share in shares])

    def count_matches(self, shares: Sequence[MatcherBatch], posts: int) -> NDArray[np.int32]:
        """Return the number of matches per post and matcher; -1 if the post is not sent there."""
        counts = np.full((posts, self.matchers), -1, np.int32)
        for share in shares:
            counts[share.posts, share.matcher] = np.sum([hits.counts for hits in self.match_share(share)], axis=0)
        return counts

    def iter_views(self) -> Iterator[SegmentView]:
        """Yield the segments of all matchers."""
        for number in range(self.matchers):
            yield from self.index.open_shard(number)

    def _shard(self, number: int) -> list[tuple[SegmentView, SegmentMatcher]]:
        if number not in self._matchers:
            terms = self.index.manifest.terms
            self._matchers[number] = [
                (live, SegmentMatcher(live.segment, terms)) for live in self.index.open_shard(number)
            ]
        return self._matchers[number]


def to_batch(share: MatcherBatch) -> AnalyzedBatch:
    """Return the posts of a share as a matcher gets them."""
    bounds = np.ascontiguousarray(np.column_stack([share.starts[:-1], share.starts[1:]]))
    return AnalyzedBatch(share.terms, bounds)
