"""Throughput from two to hundreds of matchers for every partitioner (S³-TM 6.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import fit_plan, iter_workloads, number_posts


def steps(parameters: Parameters) -> int:
    lists = ("kinds", "matchers", "split", "algorithms")
    return int(parameters["folds_run"] * np.prod([len(parameters[name]) for name in lists]))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per fold, kind of subscriptions, number of matchers, splitting of hot terms, and algorithm."""
    for fold, kind, subscribed in iter_workloads(number_posts(posts.texts), parameters, seed):
        unseen = subscribed.analyze(fold.unseen)
        for matchers in parameters["matchers"]:
            for split in parameters["split"]:
                for algorithm in parameters["algorithms"]:
                    start = time.perf_counter()
                    plan = fit_plan(algorithm, subscribed, fold.known, matchers, split)
                    seconds = time.perf_counter() - start
                    cluster = SimulatedCluster(subscribed, plan, parameters["placement"], seed)
                    work = cluster.work(unseen, parameters["repetitions"])
                    about = {"fold": fold.number, "kind": kind, "matchers": matchers, "split": split}
                    row = {**about, "algorithm": algorithm, "learning_seconds": seconds, **work.to_dict()}
                    yield f"{algorithm} on {matchers}, {kind}-based, fold {fold.number + 1}", [row]
