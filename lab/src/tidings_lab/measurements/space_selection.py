"""Which cells a worker gives away: GR, DP, SI and RA, on the cells of real workers (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.balance.rebalance.cell_load import Recent, cell_loads, held_by, with_work
from tidings.balance.rebalance.cell_selection import SELECTORS, Select, dp
from tidings.balance.rebalance.local_policy import CellLoad
from tidings.balance.work_model import WorkModel
from tidings.errors import InputError
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import SpaceFleet
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_UNIT_BYTES = 60  # about a subscription
_IN_UNITS = "dp, in subscriptions"  # sizes rounded to these: a table of a sixtieth, a choice that is nearly exact
_EXACT = ("dp", _IN_UNITS)


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"]) * len(parameters["subscriptions"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each query set, number of subscriptions, share of the load to be given away, worker, way to choose."""
    table = load_located(parameters["posts_looked_at"], seed)
    tweets = Tweets.of(table)
    for query_set in parameters["query_sets"]:
        for count in parameters["subscriptions"]:
            subscriptions = draw_subscriptions(query_set, count, tweets, seed)
            workers = _cells(subscriptions, table, parameters["workers"])
            rows: list[Row] = []
            for worker, cells in enumerate(workers[: parameters["workers_looked_at"]]):
                loads = np.array([cell.load for cell in cells])
                sizes = np.array([max(1, cell.size_bytes) for cell in cells], np.int64)
                for share in parameters["shares"]:
                    about = {"query_set": query_set, "subscriptions": count, "share": share, "worker": worker}
                    about["cells"] = len(cells)
                    rows += _tried(about, loads, sizes, share * float(loads.sum()), parameters["repetitions"], seed)
            yield f"{query_set}, {count:,} subscriptions", rows


def _cells(subscriptions: pa.Table, table: pa.Table, workers: int) -> list[list[CellLoad]]:
    """What the cells of a kd-tree's workers carry, as the stream would tell."""
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
        fleet = SpaceFleet.learned(Path(folder) / "index", subscriptions, "kdtree", workers, as_located(table))
        held, counted = held_by(fleet.index, fleet.plan), fleet.noted(fleet.receive(table))
        recent = Recent.of(fleet.index, fleet.plan, as_located(table))
        return with_work(cell_loads(held, fleet.plan, *counted), held, recent, WorkModel())


def _ways() -> Mapping[str, Select]:
    def in_units(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int) -> np.ndarray:
        return dp(loads, np.maximum(1, sizes // _UNIT_BYTES), wanted)

    return {**SELECTORS, _IN_UNITS: in_units}


def _tried(
    about: Row, loads: np.ndarray, sizes: np.ndarray, wanted: float, repetitions: int, seed: int
) -> Iterator[Row]:
    """`dp` is not there where its table would be too large. `to_dp`: bytes against those of the exact choice."""
    made: dict[str, Row] = {}
    for name, choose in _ways().items():
        seconds = []
        try:
            for _ in range(1 if name in _EXACT else repetitions):
                start = time.thread_time()
                chosen = choose(loads, sizes, wanted, seed)
                seconds.append(time.thread_time() - start)
        except InputError:
            continue
        cost = int(sizes[chosen].sum())
        made[name] = {**about, "algorithm": name, "milliseconds": 1e3 * min(seconds), "cost_bytes": cost}
    exact = min((made[name]["cost_bytes"] for name in _EXACT if name in made), default=None)
    for row in made.values():
        yield row if exact is None else {**row, "to_dp": row["cost_bytes"] / exact}
