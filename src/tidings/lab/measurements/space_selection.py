"""Which cells a worker gives away: GR, DP, SI and RA on the cells of real workers (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidings.adjust.cells import cell_loads, held_by
from tidings.adjust.select import SELECTORS
from tidings.errors import InputError
from tidings.lab.conduct import Parameters, Row
from tidings.lab.datasets import Posts
from tidings.lab.located import as_located, load_located
from tidings.lab.space_fleet import SpaceFleet
from tidings.lab.spatial import Tweets, draw_subscriptions

_UNIT_BYTES = 60  # DP counts in subscriptions; in bytes its table would be sixty times as large


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"]) * len(parameters["shares"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each query set, share of the load to be given away, worker and way to choose."""
    table = load_located(parameters["posts_looked_at"], seed)
    tweets = Tweets.of(table)
    for query_set in parameters["query_sets"]:
        subscriptions = draw_subscriptions(query_set, parameters["subscriptions"], tweets, seed)
        with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
            fleet = SpaceFleet.learned(
                Path(folder) / "index", subscriptions, "grid", parameters["workers"], as_located(table)
            )
            counted = fleet.noted(fleet.receive(table))
            workers = cell_loads(held_by(fleet.index, fleet.plan), fleet.plan, *counted)
        for share in parameters["shares"]:
            rows: list[Row] = []
            for worker, cells in enumerate(workers):
                loads = np.array([cell.load for cell in cells])
                sizes = np.maximum(1, np.array([cell.size_bytes for cell in cells], np.int64) // _UNIT_BYTES)
                about = {"query_set": query_set, "share": share, "worker": worker, "cells": len(cells)}
                rows += _tried(about, loads, sizes, share * float(loads.sum()), parameters["repetitions"], seed)
            yield f"{query_set}, {share:.0%} of the load", rows


def _tried(
    about: Row, loads: np.ndarray, sizes: np.ndarray, wanted: float, repetitions: int, seed: int
) -> Iterator[Row]:
    costs = {}
    for name, choose in SELECTORS.items():
        seconds, chosen = [], None
        try:
            for _ in range(repetitions):
                start = time.thread_time()
                chosen = choose(loads, sizes, wanted, seed)
                seconds.append(time.thread_time() - start)
        except InputError:  # DP cannot finish
            continue
        if chosen is not None:
            costs[name] = int(sizes[chosen].sum()) * _UNIT_BYTES
            exact = costs.get("dp")
            row = {**about, "algorithm": name, "milliseconds": 1e3 * min(seconds), "cost_bytes": costs[name]}
            yield row | ({} if exact is None else {"cost_ratio": costs[name] / max(1, exact)})
    if "dp" in costs:
        ratio = costs["gr"] / max(1, costs["dp"])
        yield {**about, "algorithm": "gr against dp", "compared": True, "gr_to_dp": ratio}
