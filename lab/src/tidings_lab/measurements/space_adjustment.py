"""Throughput with and without rebalancing while posts, subscriptions or machines change (PS²Stream VI-D, figure 16)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.rebalance.options import RebalanceOptions
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_stream import (
    NO_REBALANCING,
    BatchCost,
    SimulatedStream,
    build_state,
    run_in_turns,
    summarize_batches,
    warm_up,
)
from tidings_lab.spatial_scenarios import SCENARIOS
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_CELLS = RebalanceOptions(interval_s=None)  # local steps only
AGAIN, NEW_PLAN = "none again", "new plan"
ARMS: Mapping[str, RebalanceOptions] = {
    "none": NO_REBALANCING,
    AGAIN: NO_REBALANCING,  # the noise
    "cells": _CELLS,
    NEW_PLAN: NO_REBALANCING,  # learned at the begin of every phase, from posts of this phase
}


@dataclass(frozen=True, slots=True)
class Workload:
    """What changes: the places of posts, the share of regions that switch per phase, or the speeds of machines."""

    draw: str = "balanced"
    query_set: str = "Q1"
    switching: float = 0.0
    slow: float = 1.0  # speed of every fourth machine


WORKLOADS: Mapping[str, Workload] = {
    "balanced": Workload(),
    "hot spot": Workload("hot spot"),
    "day and night": Workload("day and night"),
    "unequal machines": Workload(slow=0.5),
    "switching regions": Workload(query_set="Q3", switching=0.1),
    "switching population": Workload(query_set="Q3 by population", switching=0.1),
    "switching front": Workload(query_set="Q3 front", switching=0.1),
}


def steps(parameters: Parameters) -> int:
    return len(parameters["algorithms"]) * len(parameters["workloads"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield rows per partitioner and workload: one per arm and phase. Plans are learned from other posts."""
    table = load_located(parameters["posts_sampled"], seed, with_times=True)
    known, unseen = table.slice(0, parameters["learned"]), table.slice(parameters["learned"])
    for algorithm in parameters["algorithms"]:
        for name in parameters["workloads"]:
            about = {"algorithm": algorithm, "workload": name}
            yield f"{algorithm}, {name}", partial(_measure_workload, about, known, unseen, parameters, seed)


def _measure_workload(about: Row, known: pa.Table, unseen: pa.Table, parameters: Parameters, seed: int) -> list[Row]:
    workload, tweets = WORKLOADS[about["workload"]], Tweets.of(known)
    draw = SCENARIOS[workload.draw](unseen, np.random.default_rng([seed, 8]))
    queries = [
        draw_subscriptions(workload.query_set, parameters["subscriptions"], tweets, seed, workload.switching * number)
        for number in range(parameters["phases"] + 1)
    ]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder, ExitStack() as stack:
        streams = _open_streams(Path(folder), queries[0], about["algorithm"], workload.slow, known, parameters)
        for stream in streams.values():
            stack.callback(stream.close)
        for phase in range(parameters["phases"]):
            changed = _changed_rows(queries[phase], queries[phase + 1])
            for stream in streams.values():
                if len(changed):
                    stream.replace_subscriptions(changed, queries[phase + 1])
            streams[NEW_PLAN].learn_plan(as_located(draw(phase, parameters["learned"])))
            batches = [draw(phase, parameters["batch_posts"]) for _ in range(parameters["batches"])]
            costs = run_in_turns(streams, batches, parameters["batch_s"], parameters["repetitions"])
            number = {"phase": phase + 1, "switched": len(changed) / parameters["subscriptions"]}
            rows += _summarize({**about, **number}, costs, parameters["batches"] * parameters["batch_s"])
    return rows


def _open_streams(
    folder: Path, subscriptions: pa.Table, algorithm: str, slow: float, known: pa.Table, parameters: Parameters
) -> dict[str, SimulatedStream]:
    """Open a stream per arm, all with the same plan, and run some batches to warm up."""
    matchers = parameters["workers"]
    speeds = [slow if number % 4 == 3 else 1.0 for number in range(matchers)]
    open_copy = build_state(folder / "state", subscriptions, algorithm, matchers, as_located(known))
    streams = {name: open_copy(folder / name, options, speeds) for name, options in ARMS.items()}
    warm_up(streams, known, parameters["batches"] // 2, parameters["batch_posts"], parameters["batch_s"])
    return streams


def _summarize(about: Row, costs: Mapping[str, Sequence[BatchCost]], seconds: float) -> Iterator[Row]:
    """Yield a row per arm. `settled` is the throughput of the second half of the phase."""
    throughputs = []
    for arm, measured in costs.items():
        totals, settled = summarize_batches(measured), summarize_batches(measured[len(measured) // 2 :])
        share = {"share_of_core": totals.pop("rebalancing_s") / seconds, "settled": settled["throughput"]}
        throughputs.append(totals["throughput"])
        twins = (throughputs[0], totals["throughput"])
        noise = {"differs": max(twins) / min(twins)} if arm == AGAIN else {}
        yield {**about, "adjustment": arm, **totals, **share, **noise}


def _changed_rows(before: pa.Table, after: pa.Table) -> NDArray[np.int64]:
    """Return the rows whose query or region differs."""
    old, new = ([one.column(name).to_pylist() for name in ("query", "region")] for one in (before, after))
    pairs = zip(zip(*old, strict=True), zip(*new, strict=True), strict=True)
    return np.flatnonzero([first != second for first, second in pairs])
