"""Space partitioners on PS²Stream's query sets, with any number of workers (PS²Stream VI-B and VI-D)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import Shift, SpaceFleet, renumbered, side_by_side
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

AGAIN = "again"  # the first contender once more: how much of a difference is chance


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"]) * len(parameters["workers"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each query set, number of workers and partitioner, on posts that no plan was learned from.

    Contenders take turns. The first is there twice; `differs` tells by which factor its two throughputs differ.
    """
    learned, tested = parameters["learned"], parameters["tested"]
    table = load_located(learned + tested, seed)
    known, unseen = table.slice(0, learned), table.slice(learned)
    tweets, count = Tweets.of(known), parameters["subscriptions"]
    for query_set in parameters["query_sets"]:
        subscriptions = draw_subscriptions(query_set, count, tweets, seed)
        new = renumbered(draw_subscriptions(query_set, max(1, tested // 10), tweets, seed + 1), count)
        for workers in parameters["workers"]:
            place = {"query_set": query_set, "workers": workers}
            with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
                made = [
                    _made(Path(folder) / name, subscriptions, name, workers, known) for name in parameters["algorithms"]
                ]
                fleets = [*made, (AGAIN, SpaceFleet(made[0][1].index), made[0][2])]
                shifts = [Shift(fleet, fleet.receive(unseen), new) for _, fleet, _ in fleets]
                works = side_by_side(shifts, parameters["repetitions"])
                rows = [
                    {**place, "algorithm": name, "building_seconds": seconds, **work.described(), **fleet.memory()}
                    for (name, fleet, seconds), work in zip(fleets, works, strict=True)
                ]
            twins = (rows[0]["throughput"], rows[-1]["throughput"])
            rows[-1]["differs"] = max(twins) / min(twins)
            yield f"{query_set}, {workers} workers", rows


def _made(
    folder: Path, subscriptions: pa.Table, name: str, workers: int, known: pa.Table
) -> tuple[str, SpaceFleet, float]:
    start = time.perf_counter()
    fleet = SpaceFleet.learned(folder, subscriptions, name, workers, as_located(known))
    return name, fleet, time.perf_counter() - start
