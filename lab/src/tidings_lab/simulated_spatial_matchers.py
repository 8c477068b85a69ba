"""The workers of a spatial plan, simulated in one process: each gets what the dispatcher sends and is timed separately.

The counterpart of `simulated_matchers.py`. Updates are included at the rate of the paper: one per five posts, half of
them insertions, which a worker compiles, half deletions, which it looks up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_fit import PostSample, spatial_fitter
from tidings.index.builder import create_index
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.id_lookup import find_ids
from tidings.index.manifest import PlanRecord
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index, SegmentView
from tidings.index.segment import build_segment
from tidings.index.sharding import ShardInput
from tidings.index.spatial_shards import shard_by_region
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings.plan.space import SpatialPlan
from tidings.ragged import sorted_unique
from tidings.routing.router import MatcherBatch, RoutedBatch
from tidings.routing.spatial_router import SpatialRouter
from tidings.routing.stats import RoutingStats, merge_stats
from tidings.text.analyzer import AnalyzedBatch

BATCH = 20_000  # posts that are routed and matched together


@dataclass(frozen=True, slots=True)
class PostBatch:
    """Analyzed posts and their positions."""

    received: AnalyzedBatch
    where: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpatialWork:
    """CPU seconds of the workers (`matching` by round, batch and worker, `updating` by round and worker) and of the
    dispatcher (by round), and their input.
    """

    posts: int
    updates: int
    sent: NDArray[np.int64]
    hits: NDArray[np.int64]
    matching: NDArray[np.float64]
    updating: NDArray[np.float64]
    routing: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """`throughput` is posts and updates per second of the slowest worker, `latency_ms` of a batch without a queue.

        The fastest round counts; the others were disturbed.
        """
        matching, routing = self.matching.min(axis=0), float(self.routing.min())
        own = matching.sum(axis=0) + self.updating.min(axis=0)
        slowest, total = float(own.max()), float(own.sum())
        return {
            "throughput": (self.posts + self.updates) / slowest if slowest else 0.0,
            "spread": float(self.sent.sum()) / self.posts,
            "time_imbalance": slowest * len(own) / total if total else 1.0,
            "work_ns": 1e9 * total / self.posts,
            "updating_ns": 1e9 * (total - float(matching.sum())) / self.posts,
            "routing_ns": 1e9 * routing / self.posts,
            "latency_ms": 1e3 * (routing / len(matching) + float(matching.max(axis=1).mean())),
            "hits": int(self.hits.sum()),
        }


class MeasuredRun:
    """The input of a cluster (posts and new subscriptions) and its times, round by round."""

    def __init__(self, cluster: SimulatedSpatialCluster, batches: list[PostBatch], new: pa.Table | None = None) -> None:
        self._fleet, self._batches = cluster, batches
        self._posts = sum(len(batch.received) for batch in batches)
        self._updates = 0 if new is None else self._posts // POSTS_PER_UPDATE
        self._new_shards = cluster.shard_updates(None if new is None else new.slice(0, self._updates // 2))
        self._routed = [cluster.router.route(batch.received, batch.where) for batch in batches]
        self._rounds: list[tuple[float, NDArray[np.float64], NDArray[np.float64]]] = []
        self._hits = np.zeros(cluster.router.matchers, np.int64)
        self._match_all()  # grows the buffers

    def run_round(self) -> None:
        """Route, match and update once."""
        start = time.thread_time()
        for batch in self._batches:
            self._fleet.router.route(batch.received, batch.where)
        routing = time.thread_time() - start
        self._rounds.append((routing, self._match_all(), self._fleet.update(self._new_shards)))

    def count_matches(self) -> int:
        """Return the number of matches without duplicates."""
        pairs = zip(self._batches, self._routed, strict=True)
        return sum(self._fleet.count_matches(batch, routed) for batch, routed in pairs)

    def _match_all(self) -> NDArray[np.float64]:
        seconds = np.zeros((len(self._batches), self._fleet.router.matchers))
        self._hits[:] = 0
        for row, batch, routed in zip(seconds, self._batches, self._routed, strict=True):
            self._fleet.match_shares(batch, routed, row, self._hits)
        return seconds

    def work(self) -> SpatialWork:
        """Return the times of all rounds."""
        sent = np.zeros(self._fleet.router.matchers, np.int64)
        for routed in self._routed:
            for share in routed.batches:
                sent[share.matcher] += len(share.posts)
        routing, matching, updating = (np.array(some) for some in zip(*self._rounds, strict=True))
        return SpatialWork(self._posts, self._updates, sent, self._hits, matching, updating, routing)


def measure_in_turns(runs: Sequence[MeasuredRun], rounds: int) -> list[SpatialWork]:
    """Run rounds in turns, so that disturbances affect all contenders; every other round in reverse order."""
    for number in range(rounds):
        for run in runs if number % 2 else runs[::-1]:
            run.run_round()
    return [run.work() for run in runs]


class SimulatedSpatialCluster:
    """An index sharded by a spatial plan, its dispatcher and its matchers."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.router = SpatialRouter(index)
        self.timer = time.thread_time
        self._matchers: dict[int, list[tuple[SegmentView, SegmentMatcher]]] = {}

    @classmethod
    def learn(
        cls, folder: Path, subscriptions: pa.Table, name: str, workers: int, sample: PostSample
    ) -> SimulatedSpatialCluster:
        learn = spatial_fitter(name, workers, lambda: sample)
        return cls(create_index(folder, subscriptions, PlanRecord(name, workers, 7), learn)[0])

    @property
    def plan(self) -> SpatialPlan:
        assert self.index.manifest.plan is not None
        return cached_spatial_plan(self.index.folder / self.index.manifest.plan.spatial_file)

    def memory(self) -> dict[str, float]:
        """Return the megabytes of the dispatcher, and of a worker on average."""
        shards = [self.index.open_shard(number) for number in range(self.router.matchers)]
        held = sum(live.segment.size_bytes for shard in shards for live in shard)
        return {"dispatcher_mb": self.router.size_bytes / 1e6, "worker_mb": held / len(shards) / 1e6}

    def analyze(self, posts: pa.Table) -> list[PostBatch]:
        receiver, found = self.index.analyzer(), []
        for at in range(0, len(posts), BATCH):
            piece = posts.slice(at, BATCH)
            where = np.column_stack([np.asarray(piece.column(name), np.float64) for name in ("lon", "lat")])
            received = receiver.analyze(piece.column("text").combine_chunks())
            kept = AnalyzedBatch(received.terms.copy(), received.bounds.copy(), received.rejected)
            found.append(PostBatch(kept, where))
        return found

    def count_routed(self, batches: list[PostBatch]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Route posts. Returns the cells and the number of posts sent per cell."""
        found = merge_stats(
            RoutingStats.from_routed(self.router.route(batch.received, batch.where)) for batch in batches
        )
        return found.cells, found.sent_by_cell

    def match(self, batch: PostBatch) -> None:
        """Route and match a batch, one worker after another."""
        nothing = np.zeros(self.router.matchers), np.zeros(self.router.matchers, np.int64)
        self.match_shares(batch, self.router.route(batch.received, batch.where), *nothing)

    def match_shares(
        self, batch: PostBatch, routed: RoutedBatch, seconds: NDArray[np.float64], hits: NDArray[np.int64]
    ) -> None:
        """Match a routed batch. Adds the seconds (of `timer`) and matches of each worker to the given arrays."""
        for share in routed.batches:
            received, where = _posts_of(share, batch)
            start = self.timer()
            for _, matcher in self._shard(share.matcher):
                hits[share.matcher] += len(matcher.match(received, where))
            seconds[share.matcher] += self.timer() - start

    def count_matches(self, batch: PostBatch, routed: RoutedBatch) -> int:
        """Match a routed batch; return the number of matches without duplicates."""
        keys = [np.zeros(0, np.uint64)]
        for share in routed.batches:
            for view, matcher in self._shard(share.matcher):
                hits = matcher.match(*_posts_of(share, batch))
                ids = view.segment.ids.to_numpy(zero_copy_only=False)[hits.subscriptions]
                keys.append(share.posts[hits.posts].astype(np.uint64) << np.uint64(32) | ids.astype(np.uint64))
        return len(sorted_unique(np.concatenate(keys)))

    def shard_updates(self, new: pa.Table | None) -> list[tuple[ShardInput, pa.Array]]:
        """Return new subscriptions by shard, with their ids."""
        if new is None or not len(new):
            return []
        vocabulary = GrowingVocabulary(self.index.vocabulary, self.index.manifest.terms)
        compiled = compile_subscriptions(new, vocabulary)
        ids = new.column("id").combine_chunks().take(pa.array(compiled.rows))
        ordered = vocabulary.order_terms(compiled.conjunctions, self.index.statistics).sort_by_subscription()
        shares = shard_by_region(ordered, self.plan, vocabulary.text_of)
        return [(share, ids.take(pa.array(share.subscriptions))) for share in shares]

    def update(self, updates: Sequence[tuple[ShardInput, pa.Array]]) -> NDArray[np.float64]:
        """Return the seconds per worker to compile its insertions and to look up the same number of deletions."""
        seconds = np.zeros(self.router.matchers)
        for share, ids in updates:
            start = time.thread_time()
            build_segment(share.conjunctions, ids)
            for live, _ in self._shard(share.number):
                find_ids(ids, live.segment.ids, live.segment.id_hash, live.segment.id_row)
            seconds[share.number] += time.thread_time() - start
        return seconds

    def _shard(self, number: int) -> list[tuple[SegmentView, SegmentMatcher]]:
        if number not in self._matchers:
            terms = self.index.manifest.terms
            live = self.index.open_shard(number)
            self._matchers[number] = [(view, SegmentMatcher(view.segment, terms, view.removed)) for view in live]
        return self._matchers[number]


def _posts_of(share: MatcherBatch, batch: PostBatch) -> tuple[AnalyzedBatch, NDArray[np.float64]]:
    """Return the terms and positions of the posts that a worker is sent."""
    bounds = np.ascontiguousarray(np.column_stack([share.starts[:-1], share.starts[1:]]))
    return AnalyzedBatch(share.terms, bounds), batch.where[share.posts]


def renumber(subscriptions: pa.Table, first: int) -> pa.Table:
    """The same subscriptions with ids from `first` on."""
    ids = pa.array(np.arange(first, first + len(subscriptions)))
    return subscriptions.set_column(subscriptions.column_names.index("id"), "id", ids)
