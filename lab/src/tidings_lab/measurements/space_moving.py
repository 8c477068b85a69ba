"""Migration of cells while posts are matched: bytes, duration, and latency during it (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import LocalRebalancing, prepare_rebalancing
from tidings.balance.rebalance.measured_load import MeasuredLoad
from tidings.balance.spatial_fit import PostSample
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import MeasuredRun, PostBatch, SimulatedSpatialCluster, measure_in_turns
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_ROUNDS = 5


def steps(parameters: Parameters) -> int:
    return len(parameters["subscriptions"]) * len(parameters["selectors"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per number of subscriptions and selector of cells. Posts come from one half of the area only."""
    table = load_located(parameters["posts_sampled"], seed)
    tweets = Tweets.of(table)
    lats = np.asarray(table.column("lat"))
    half = table.filter(lats > np.median(lats))
    for count in parameters["subscriptions"]:
        subscriptions = draw_subscriptions("Q1", count, tweets, seed)
        for selector in parameters["selectors"]:
            with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
                workers = parameters["workers"]
                cluster = SimulatedSpatialCluster.learn(
                    Path(folder) / "index", subscriptions, "kdtree", workers, as_located(table)
                )
                batches = cluster.analyze(half)
                settings = LocalSettings(sigma=1.2, selector=selector, seed=seed)
                row = _migrate(cluster, batches, as_located(half), settings)
            yield f"{count:,} subscriptions, {selector}", [{"subscriptions": count, "algorithm": selector, **row}]


def _migrate(
    cluster: SimulatedSpatialCluster, batches: list[PostBatch], recent: PostSample, settings: LocalSettings
) -> Row:
    quiet = [_latency_ms(cluster, batch) for batch in batches]
    found: list[LocalRebalancing | None] = []
    counted = cluster.count_routed(batches)
    maker = threading.Thread(
        target=lambda: found.append(prepare_rebalancing(cluster.index, MeasuredLoad(*counted), recent, settings))
    )
    start = time.perf_counter()
    maker.start()
    during = [_latency_ms(cluster, batch) for batch in _batches_while(maker, batches)]
    maker.join()
    seconds = time.perf_counter() - start
    moved = found[0]
    if moved is None:
        return {"moved_cells": 0}
    start = time.perf_counter()
    after = SimulatedSpatialCluster(moved.prepared.publish(cluster.index.version + 1))
    switch_ms = 1e3 * (time.perf_counter() - start)
    works = measure_in_turns([MeasuredRun(candidate, batches) for candidate in (cluster, after)], _ROUNDS)
    before, after_imbalance = (work.to_dict()["time_imbalance"] for work in works)
    return {
        "moved_cells": sum(moved.cells.values()),
        "moved_bytes": moved.size_bytes,
        "seconds": seconds,
        "switch_ms": switch_ms,
        "latency_ms": float(np.mean(quiet)),
        "latency_during_ms": float(np.mean(during)) if during else float(np.mean(quiet)),
        "imbalance_before": before,
        "imbalance_after": after_imbalance,
        "improved": before / after_imbalance,
    }


def _batches_while(maker: threading.Thread, batches: list[PostBatch]) -> Iterator[PostBatch]:
    while maker.is_alive():
        yield from batches[:1]


def _latency_ms(cluster: SimulatedSpatialCluster, batch: PostBatch) -> float:
    """Return the wall time until the last worker is done with a batch; the workers run one after another here."""
    start = time.perf_counter()
    cluster.match(batch)
    return 1e3 * (time.perf_counter() - start)
