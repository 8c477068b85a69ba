"""Spatial partitioners on the query sets of PS²Stream, for several numbers of workers (PS²Stream VI-B and VI-C)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidings_lab.datasets import Posts
from tidings_lab.errors import ContendersDisagree
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster, measure_in_turns, renumber
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

AGAIN = "again"  # the first contender a second time, to estimate random differences
TEXT = ("frequency", "hypergraph", "metric")  # algorithms that partition by text only


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield rows per query set: for every number of workers and partitioner, on posts that no plan was learned from.

    Contenders take turns. The first one runs twice; `differs` is the ratio of its two throughputs. `scaling` is the
    throughput relative to that with the fewest workers.
    """
    learned, tested = parameters["learned"], parameters["tested"]
    table = load_located(learned + tested, seed)
    known, unseen = table.slice(0, learned), table.slice(learned)
    for query_set, factor in zip(parameters["query_sets"], parameters["size_factors"], strict=True):
        yield query_set, partial(_measure_query_set, query_set, factor, known, unseen, parameters, seed)


def _measure_query_set(
    query_set: str, factor: int, known: pa.Table, unseen: pa.Table, parameters: Parameters, seed: int
) -> list[Row]:
    tweets, count = Tweets.of(known), parameters["subscriptions"] * factor
    subscriptions = draw_subscriptions(query_set, count, tweets, seed)
    new = renumber(draw_subscriptions(query_set, max(1, len(unseen) // 10), tweets, seed + 1), count)
    rows = [
        {"query_set": query_set, "workers": workers, "subscriptions": count, **row}
        for workers in parameters["workers"]
        for row in _compare(subscriptions, new, workers, known, unseen, parameters)
    ]
    first = {row["algorithm"]: row["throughput"] for row in reversed(rows)}
    return [{**row, "scaling": row["throughput"] / first[row["algorithm"]]} for row in rows]


def _compare(
    subscriptions: pa.Table, new: pa.Table, workers: int, known: pa.Table, unseen: pa.Table, parameters: Parameters
) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
        built = [_build(Path(folder) / name, subscriptions, name, workers, known) for name in parameters["algorithms"]]
        clusters = [*built, (AGAIN, SimulatedSpatialCluster(built[0][1].index), built[0][2])]
        runs = [MeasuredRun(cluster, cluster.analyze(unseen), new) for _, cluster, _ in clusters]
        _check_agreement({name: run.count_matches() for (name, _, _), run in zip(clusters, runs, strict=True)})
        works = measure_in_turns(runs, parameters["repetitions"])
        rows = [
            {
                "algorithm": name,
                "is_text": name in TEXT,
                "building_seconds": seconds,
                **work.to_dict(),
                **cluster.memory(),
            }
            for (name, cluster, seconds), work in zip(clusters, works, strict=True)
        ]
    twins = (rows[0]["throughput"], rows[-1]["throughput"])
    rows[-1]["differs"] = max(twins) / min(twins)
    return rows


def _check_agreement(matches: dict[str, int]) -> None:
    if len(set(matches.values())) > 1:
        raise ContendersDisagree(f"Partitioners found different numbers of matches: {matches}.")


def _build(
    folder: Path, subscriptions: pa.Table, name: str, workers: int, known: pa.Table
) -> tuple[str, SimulatedSpatialCluster, float]:
    start = time.process_time()
    cluster = SimulatedSpatialCluster.learn(folder, subscriptions, name, workers, as_located(known))
    return name, cluster, time.process_time() - start
