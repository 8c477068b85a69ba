"""Spatial partitioners on the query sets of PS²Stream, for several numbers of workers (PS²Stream VI-B and VI-D)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster, measure_in_turns, renumber
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

AGAIN = "again"  # the first contender a second time, to estimate random differences


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"]) * len(parameters["workers"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per query set, number of workers and partitioner, on posts that no plan was learned from.

    Contenders take turns. The first one runs twice; `differs` is the ratio of its two throughputs.
    """
    learned, tested = parameters["learned"], parameters["tested"]
    table = load_located(learned + tested, seed)
    known, unseen = table.slice(0, learned), table.slice(learned)
    tweets, count = Tweets.of(known), parameters["subscriptions"]
    for query_set in parameters["query_sets"]:
        subscriptions = draw_subscriptions(query_set, count, tweets, seed)
        new = renumber(draw_subscriptions(query_set, max(1, tested // 10), tweets, seed + 1), count)
        for workers in parameters["workers"]:
            place = {"query_set": query_set, "workers": workers}
            with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
                built = [
                    _build(Path(folder) / name, subscriptions, name, workers, known)
                    for name in parameters["algorithms"]
                ]
                clusters = [*built, (AGAIN, SimulatedSpatialCluster(built[0][1].index), built[0][2])]
                runs = [MeasuredRun(cluster, cluster.analyze(unseen), new) for _, cluster, _ in clusters]
                works = measure_in_turns(runs, parameters["repetitions"])
                rows = [
                    {**place, "algorithm": name, "building_seconds": seconds, **work.to_dict(), **cluster.memory()}
                    for (name, cluster, seconds), work in zip(clusters, works, strict=True)
                ]
            twins = (rows[0]["throughput"], rows[-1]["throughput"])
            rows[-1]["differs"] = max(twins) / min(twins)
            yield f"{query_set}, {workers} workers", rows


def _build(
    folder: Path, subscriptions: pa.Table, name: str, workers: int, known: pa.Table
) -> tuple[str, SimulatedSpatialCluster, float]:
    start = time.perf_counter()
    cluster = SimulatedSpatialCluster.learn(folder, subscriptions, name, workers, as_located(known))
    return name, cluster, time.perf_counter() - start
