"""Cells change hands while posts are matched: what it costs, how long it takes, what posts notice (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import Rebalanced, rebalanced
from tidings.balance.spatial_fit import Located
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import Batch, Shift, SpaceFleet, side_by_side
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_ROUNDS = 5


def steps(parameters: Parameters) -> int:
    return len(parameters["subscriptions"]) * len(parameters["choose"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each number of subscriptions and way to choose cells. Posts come from one half of the country only."""
    table = load_located(parameters["posts_looked_at"], seed)
    tweets = Tweets.of(table)
    lats = np.asarray(table.column("lat"))
    half = table.filter(lats > np.median(lats))
    for count in parameters["subscriptions"]:
        subscriptions = draw_subscriptions("Q1", count, tweets, seed)
        for choose in parameters["choose"]:
            with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
                workers = parameters["workers"]
                fleet = SpaceFleet.learned(Path(folder) / "index", subscriptions, "kdtree", workers, as_located(table))
                batches = fleet.receive(half)
                settings = LocalSettings(sigma=1.2, choose=choose, seed=seed)
                row = _moved(fleet, batches, as_located(half), settings)
            yield f"{count:,} subscriptions, {choose}", [{"subscriptions": count, "algorithm": choose, **row}]


def _moved(fleet: SpaceFleet, batches: list[Batch], recent: Located, settings: LocalSettings) -> Row:
    quiet = [_latency_ms(fleet, batch) for batch in batches]
    found: list[Rebalanced | None] = []
    counted = fleet.noted(batches)
    maker = threading.Thread(target=lambda: found.append(rebalanced(fleet.index, *counted, recent, settings)))
    start = time.perf_counter()
    maker.start()
    during = [_latency_ms(fleet, batch) for batch in _while_alive(maker, batches)]
    maker.join()
    seconds = time.perf_counter() - start
    moved = found[0]
    if moved is None:
        return {"moved_cells": 0}
    start = time.perf_counter()
    after = SpaceFleet(moved.prepared.publish(fleet.index.version + 1))
    switch_ms = 1e3 * (time.perf_counter() - start)
    works = side_by_side([Shift(one, batches) for one in (fleet, after)], _ROUNDS)
    before, then = (work.described()["time_imbalance"] for work in works)
    return {
        "moved_cells": moved.moved + moved.split + moved.joined,
        "moved_bytes": moved.size_bytes,
        "seconds": seconds,
        "switch_ms": switch_ms,
        "latency_ms": float(np.mean(quiet)),
        "latency_during_ms": float(np.mean(during)) if during else float(np.mean(quiet)),
        "imbalance_before": before,
        "imbalance_after": then,
        "improved": before / then,
    }


def _while_alive(maker: threading.Thread, batches: list[Batch]) -> Iterator[Batch]:
    while maker.is_alive():
        yield from batches[:1]


def _latency_ms(fleet: SpaceFleet, batch: Batch) -> float:
    """By the wall: what a post waits for until the last worker is done with its batch, one after the other here."""
    start = time.perf_counter()
    fleet.match(batch)
    return 1e3 * (time.perf_counter() - start)
