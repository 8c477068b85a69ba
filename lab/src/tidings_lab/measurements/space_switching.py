"""Throughput with and without rebalancing while regions switch their kind of query (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import prepare_rebalancing
from tidings.index.builder import apply_changes, merge_index
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster, measure_in_turns
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_STEPS_PER_ROUND = 8  # local steps before the next regions switch
_KINDS = ("none", "cells", "new plan")


def steps(parameters: Parameters) -> int:
    return len(parameters["algorithms"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per partitioner, kind of rebalancing and round of switching.

    Plans are learned from some posts, rebalanced by others, and measured with a third part.
    """
    learned, recent, tested = parameters["learned"], parameters["recent"], parameters["tested"]
    table = load_located(learned + recent + tested, seed)
    known, late, unseen = table.slice(0, learned), table.slice(learned, recent), table.slice(learned + recent)
    tweets, count = Tweets.of(known), parameters["subscriptions"]
    shares = np.arange(parameters["rounds"] + 1) * parameters["switching"]
    rounds = [draw_subscriptions("Q3", count, tweets, seed, flipped) for flipped in shares]
    for name in parameters["algorithms"]:
        with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
            make = partial(
                SimulatedSpatialCluster.learn, name=name, workers=parameters["workers"], sample=as_located(known)
            )
            clusters = {kind: make(Path(folder) / kind, rounds[0]) for kind in ("none", "cells")}
            rows: list[Row] = []
            for number in range(1, len(rounds)):
                switched = [
                    _switch_regions(clusters[kind], rounds[number - 1], rounds[number]) for kind in ("none", "cells")
                ]
                rebalanced_cluster, moved = _rebalance(switched[1], late)
                clusters = {"none": switched[0], "cells": rebalanced_cluster}
                new_plan = make(Path(folder) / f"new-plan-{number}", rounds[number])
                runs = [MeasuredRun(cluster, cluster.analyze(unseen)) for cluster in (*clusters.values(), new_plan)]
                for kind, work in zip(_KINDS, measure_in_turns(runs, parameters["repetitions"]), strict=True):
                    about = {"algorithm": name, "adjustment": kind, "round": number, "moved_bytes": moved}
                    rows.append({**about, **work.to_dict()})
        yield name, rows


def _switch_regions(cluster: SimulatedSpatialCluster, before: pa.Table, after: pa.Table) -> SimulatedSpatialCluster:
    """Replace the subscriptions of regions that changed their kind.

    All segments are merged; otherwise a cluster that moved cells would have fewer segments and an advantage.
    """
    other = np.array([a != b for a, b in zip(_queries_and_regions(before), _queries_and_regions(after), strict=True)])
    return SimulatedSpatialCluster(merge_index(apply_changes(cluster.index, after.filter(pa.array(other)))[0]))


def _queries_and_regions(table: pa.Table) -> list[tuple[str, list[float]]]:
    return list(zip(table.column("query").to_pylist(), table.column("region").to_pylist(), strict=True))


def _rebalance(cluster: SimulatedSpatialCluster, posts: pa.Table) -> tuple[SimulatedSpatialCluster, int]:
    moved = 0
    for _ in range(_STEPS_PER_ROUND):
        counted = cluster.count_routed(cluster.analyze(posts))
        found = prepare_rebalancing(cluster.index, *counted, as_located(posts), LocalSettings(sigma=1.2))
        if found is None:
            break
        moved += found.size_bytes
        cluster = SimulatedSpatialCluster(found.prepared.publish(cluster.index.version + 1))
    return cluster, moved
