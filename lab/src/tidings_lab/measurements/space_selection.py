"""Selection of cells to migrate by GR, DP, SI and RA, on the cells of real workers (PS²Stream VI-D)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.balance.rebalance.cell_load import add_work, measure_cells
from tidings.balance.rebalance.cell_selection import SELECTORS, CellSelector, select_exact
from tidings.balance.rebalance.local_policy import CellLoad
from tidings.balance.rebalance.recent_cells import RecentCells
from tidings.balance.rebalance.shard_sample import sample_shards
from tidings.balance.work_model import WorkModel
from tidings.errors import InputError
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_spatial_matchers import SimulatedSpatialCluster
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_UNIT_BYTES = 60  # about one subscription
_IN_UNITS = "dp, in subscriptions"  # sizes in units: a table of 1/60 of the size, and nearly exact
_EXACT = ("dp", _IN_UNITS)


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"]) * len(parameters["subscriptions"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield a row per query set, number of subscriptions, share of the load to move, worker and selector."""
    table = load_located(parameters["posts_sampled"], seed)
    for query_set in parameters["query_sets"]:
        for size, count in enumerate(parameters["subscriptions"], 1):
            about = {"query_set": query_set, "subscriptions": count, "size": size}
            yield f"{query_set}, {count:,} subscriptions", partial(_measure, about, table, parameters, seed)


def _measure(about: Row, table: pa.Table, parameters: Parameters, seed: int) -> list[Row]:
    subscriptions = draw_subscriptions(about["query_set"], about["subscriptions"], Tweets.of(table), seed)
    rows: list[Row] = []
    for worker, cells in enumerate(
        _cells(subscriptions, table, parameters["workers"])[: parameters["workers_sampled"]]
    ):
        loads = np.array([cell.load for cell in cells])
        sizes = np.array([max(1, cell.size_bytes) for cell in cells], np.int64)
        for share in parameters["shares"]:
            place = {**about, "share": share, "worker": worker, "cells": len(cells)}
            rows += _measure_selectors(place, loads, sizes, share * float(loads.sum()), parameters["repetitions"], seed)
    return rows


def _cells(subscriptions: pa.Table, table: pa.Table, workers: int) -> list[list[CellLoad]]:
    """Return the loads of the cells of each worker of a kd-tree plan, as in a stream."""
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
        cluster = SimulatedSpatialCluster.learn(
            Path(folder) / "index", subscriptions, "kdtree", workers, as_located(table)
        )
        held, counted = sample_shards(cluster.index, cluster.plan), cluster.count_routed(cluster.analyze(table))
        recent = RecentCells.build(cluster.index, cluster.plan, as_located(table))
        return list(add_work(measure_cells(held, cluster.plan, *counted), held, recent, WorkModel()).values())


def _selectors() -> Mapping[str, CellSelector]:
    def in_units(loads: np.ndarray, sizes: np.ndarray, load_to_move: float, seed: int) -> np.ndarray:
        return select_exact(loads, np.maximum(1, sizes // _UNIT_BYTES), load_to_move)

    return {**SELECTORS, _IN_UNITS: in_units}


def _measure_selectors(
    about: Row, loads: np.ndarray, sizes: np.ndarray, load_to_move: float, repetitions: int, seed: int
) -> Iterator[Row]:
    """Yield a row per selector. `dp` is missing if its table would be too large; `to_dp`: bytes relative to `dp`."""
    rows: dict[str, Row] = {}
    for name, choose in _selectors().items():
        seconds = []
        try:
            for _ in range(1 if name in _EXACT else repetitions):
                start = time.thread_time()
                chosen = choose(loads, sizes, load_to_move, seed)
                seconds.append(time.thread_time() - start)
        except InputError:
            continue
        cost = int(sizes[chosen].sum())
        rows[name] = {**about, "algorithm": name, "milliseconds": 1e3 * min(seconds), "cost_bytes": cost}
    exact = min((rows[name]["cost_bytes"] for name in _EXACT if name in rows), default=None)
    for row in rows.values():
        yield row if exact is None else {**row, "to_dp": row["cost_bytes"] / exact}
