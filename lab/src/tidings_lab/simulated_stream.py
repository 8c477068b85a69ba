"""A stream over the simulated matchers of a spatial plan: the product keeps its index and rebalances its plan.

Store, index, router, matchers and rebalancer are those of `tidings run`; simulated are Spark, the clock, and that the
matchers run one after another. A version that is built in the background is ready for the next batch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec
from tidings.index.builder import prepare_merge
from tidings.index.reader import Index
from tidings.matching.load import MatcherLoad
from tidings.routing.stats import RoutingStats, merge_stats
from tidings.spark.execution_mode import make_plan_record
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.live_index import LiveIndex
from tidings.stream.plan_refresh import PlanRefresher
from tidings.stream.rebalancer import Rebalancer
from tidings_lab.simulated_spatial_matchers import PostBatch, SimulatedSpatialCluster
from tidings_lab.spatial_workload import to_rows

NO_REBALANCING = RebalanceOptions(factor=None, interval_s=None)
ARROW_BATCH_POSTS = 10_000  # the product samples texts per Arrow batch
_INDEX = "index"


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Wall time of a batch: until its slowest matcher is done, and of refreshing index and router before it."""

    service_s: float
    switch_s: float
    is_building: bool  # whether a version with another plan was being built at its end
    is_switch: bool


@dataclass(frozen=True, slots=True)
class BatchCost:
    """CPU seconds of a batch, and the bytes on disk of a change of the plan before it."""

    posts: int
    matching: NDArray[np.float64]  # per matcher; relative to its speed
    routing: float
    rebalancing: float  # checks, steps and switches, and changes of subscriptions if there are any
    sent: NDArray[np.int64]
    hits: int
    is_switch: bool
    bytes_written: int


def build_state(
    folder: Path, subscriptions: pa.Table, partitioner: str, matchers: int, sample: PostSample
) -> Callable[[Path, RebalanceOptions, Sequence[float] | None], SimulatedStream]:
    """Build store and index of a stream whose plan is learned from a sample; return how to open a copy of them."""
    folder.mkdir(parents=True)
    spec = PlanSpec.parse(partitioner, matchers, "anchor")
    with open_store(folder) as store:
        store.subscriptions.add_many(to_rows(subscriptions))
        _learn_plan(IndexUpdater(store, folder / _INDEX, make_plan_record(spec)), spec, sample)

    def open_copy(copy: Path, options: RebalanceOptions, speeds: Sequence[float] | None = None) -> SimulatedStream:
        shutil.copytree(folder, copy)
        return SimulatedStream(copy, spec, options, speeds)

    return open_copy


def _learn_plan(updater: IndexUpdater, spec: PlanSpec, sample: PostSample) -> None:
    updater.start_refresh(spec.refit(lambda: sample))
    updater.wait_for_build()
    updater.refresh()
    if updater.plan_error is not None:
        raise updater.plan_error


class SimulatedStream:
    """Matches batches at simulated times. `speeds`: of the machines of the matchers; 1 is the speed of this one."""

    def __init__(
        self, folder: Path, spec: PlanSpec, rebalance: RebalanceOptions, speeds: Sequence[float] | None = None
    ) -> None:
        self._index_folder, self._now, self._batch, self._spec = folder / _INDEX, 0.0, 0, spec
        self._speeds = np.ones(spec.matchers) if speeds is None else np.asarray(speeds, np.float64)
        self.store = open_store(folder)
        self._ids = np.array(self.store.subscriptions.ids(""), np.int64)
        self.updater = IndexUpdater(self.store, self._index_folder, make_plan_record(spec))
        self._refresher = PlanRefresher(
            self.updater, self.store, spec, state_file=folder / "plan.json", clock=lambda: self._now
        )
        self.rebalancer = Rebalancer(self.updater, spec, self._refresher.recent, rebalance, clock=lambda: self._now)
        self._live = LiveIndex(self.updater, self._refresher, self.rebalancer)
        self._cluster = SimulatedSpatialCluster(self.updater.index)
        self._files_before_step = self.list_files()

    def learn_plan(self, sample: PostSample) -> None:
        """Learn a new plan now and place all subscriptions by it."""
        _learn_plan(self.updater, self._spec, sample)

    def replace_subscriptions(self, rows: NDArray[np.int64], subscriptions: pa.Table) -> None:
        """Replace the subscriptions in some rows, bring the index up to date, and merge its segments.

        Otherwise a stream that moved cells would have other segments than one that did not.
        """
        self.store.subscriptions.remove_many(self._ids[rows].tolist())
        self._ids[rows] = self.store.subscriptions.add_many(to_rows(subscriptions.take(pa.array(rows))))
        while self.updater.refresh().manifest.log_position < self.store.subscriptions.position():
            self.updater.wait_for_build()
        self.updater.wait_for_build()
        self.updater.start_build(prepare_merge)
        self.updater.wait_for_build()
        self.updater.refresh()

    def close(self) -> None:
        """Close the store when no build is running any more: its folder may be deleted then."""
        self.updater.wait_for_build()
        self.updater.close()
        self.store.close()

    def run_batch(self, posts: pa.Table, seconds: float, repetitions: int = 1) -> BatchCost:
        """Match posts that arrive within some seconds; the best of the repetitions counts."""
        plan_version, files = _plan_version(self.updater.index), self.list_files()
        index, rebalancing = self._refresh()
        is_switch = _plan_version(index) != plan_version
        written = self._note_files(files, is_switch)
        if index.version != self._cluster.index.version:
            self._cluster = SimulatedSpatialCluster(index)
        batches = self._cluster.analyze(posts)
        costs = [self._match(batches) for _ in range(repetitions)]
        routing, matching = min(cost[0] for cost in costs), np.min([cost[1] for cost in costs], axis=0)
        stats, sent, hits = costs[0][2:]
        self._now += seconds
        rebalancing += self._observe(index, posts, batches, stats, costs[0][1], sent)
        return BatchCost(
            posts=len(posts),
            matching=matching,
            routing=routing,
            rebalancing=rebalancing,
            sent=sent,
            hits=hits,
            is_switch=is_switch,
            bytes_written=written,
        )

    def run_live_batch(self, posts: pa.Table, now: float) -> LiveBatch:
        """Match posts while versions are built in the background, and measure wall time."""
        version, self._now = self.updater.index.version, now
        start = time.perf_counter()
        index = self._live.refresh(self._batch)
        self._batch += 1
        if index.version != version:
            self._cluster = SimulatedSpatialCluster(index)
        switch_s = time.perf_counter() - start
        batches = self._cluster.analyze(posts)
        self._cluster.timer = time.perf_counter
        routing, matching, stats, sent, _ = self._match(batches)
        self._observe(index, posts, batches, stats, matching, sent)
        is_building = self.updater.is_building_plan
        return LiveBatch(switch_s + routing + float(matching.max()), switch_s, is_building, index.version != version)

    def _note_files(self, files: dict[Path, int], is_switch: bool) -> int:
        """Return the bytes of the files written since the step began that is now in effect; 0 if there is none.

        `files` are those before this batch, in which the next step may have begun.
        """
        before, self._files_before_step = self._files_before_step, files
        if not is_switch:
            return 0
        return sum(size for path, size in self.list_files().items() if path not in before)

    def list_files(self) -> dict[Path, int]:
        """Return the sizes of all files of the index."""
        return _list_files(self._index_folder)

    def _refresh(self) -> tuple[Index, float]:
        """Bring the index up to date; wait for a step that this starts, and return its CPU time."""
        start = time.process_time()
        index = self._live.refresh(self._batch)
        self.updater.wait_for_build()
        self._batch += 1
        return index, time.process_time() - start

    def _match(
        self, batches: Sequence[PostBatch]
    ) -> tuple[float, NDArray[np.float64], RoutingStats, NDArray[np.int64], int]:
        """Return the seconds of routing and of each matcher, the routing statistics, posts per matcher, and hits."""
        matchers = self._cluster.router.matchers
        seconds, hits, sent = np.zeros(matchers), np.zeros(matchers, np.int64), np.zeros(matchers, np.int64)
        start = self._cluster.timer()
        routed = [self._cluster.router.route(batch.received, batch.where) for batch in batches]
        routing = self._cluster.timer() - start
        for batch, shares in zip(batches, routed, strict=True):
            self._cluster.match_shares(batch, shares, seconds, hits)
            for share in shares.batches:
                sent[share.matcher] += len(share.posts)
        stats = merge_stats(map(RoutingStats.from_routed, routed))
        return routing, seconds / self._speeds, stats, sent, int(hits.sum())

    def _observe(
        self,
        index: Index,
        posts: pa.Table,
        batches: Sequence[PostBatch],
        stats: RoutingStats,
        seconds: NDArray[np.float64],
        sent: NDArray[np.int64],
    ) -> float:
        """Report the batch to the policies, with a sample of its posts; return the CPU time of that."""
        count = min(len(posts), self._refresher.sample_texts * -(-len(posts) // ARROW_BATCH_POSTS))
        rows = np.linspace(0, len(posts), count, endpoint=False).astype(np.int64)
        texts = posts.column("text").take(pa.array(rows)).combine_chunks().cast(pa.large_string())
        positions = np.concatenate([batch.where for batch in batches])[rows]
        sampled = RoutingStats(
            stats.spread, sample_texts=texts, sample_positions=positions,
            cells=stats.cells, sent_by_cell=stats.sent_by_cell,
        )  # fmt: skip
        loads = [MatcherLoad(matcher, int(sent[matcher]), 0, float(seconds[matcher])) for matcher in range(len(sent))]
        start = time.process_time()
        self._live.observe_batch(index, sampled, loads)
        return time.process_time() - start


def run_in_turns(
    streams: Mapping[str, SimulatedStream], batches: Sequence[pa.Table], batch_s: float, repetitions: int = 1
) -> dict[str, list[BatchCost]]:
    """Run every batch on all streams, in rotating order, so that disturbances affect all of them."""
    names = list(streams)
    costs: dict[str, list[BatchCost]] = {name: [] for name in names}
    for number, posts in enumerate(batches):
        for at in range(len(names)):
            name = names[(at + number) % len(names)]
            costs[name].append(streams[name].run_batch(posts, batch_s, repetitions))
    return costs


def warm_up(
    streams: Mapping[str, SimulatedStream], posts: pa.Table, batches: int, batch_posts: int, batch_s: float
) -> None:
    """Run batches without measuring them: the first ones read the index from disk and grow the buffers of matchers."""
    starts = np.arange(batches) * batch_posts % max(1, len(posts) - batch_posts)
    run_in_turns(streams, [posts.slice(start, batch_posts) for start in starts.tolist()], batch_s)


def summarize_batches(costs: Sequence[BatchCost]) -> dict[str, Any]:
    """Return the throughput of the busiest matcher over some batches, and the work."""
    by_matcher = np.sum([cost.matching for cost in costs], axis=0)
    posts = sum(cost.posts for cost in costs)
    return {
        "posts": posts,
        "throughput": posts / float(by_matcher.max()),
        "slowest_s": float(by_matcher.max()),
        "time_imbalance": float(by_matcher.max() / by_matcher.mean()),
        "work_ns": 1e9 * float(by_matcher.sum()) / posts,
        "rebalancing_s": sum(cost.rebalancing for cost in costs),
        "steps": sum(cost.is_switch for cost in costs),
        "bytes_written": sum(cost.bytes_written for cost in costs),
    }


def _plan_version(index: Index) -> int:
    assert index.manifest.plan is not None
    return index.manifest.plan.version


def _list_files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
