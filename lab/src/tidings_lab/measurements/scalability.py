"""From two matchers to hundreds, by every partitioner: what all of them together take (S³-TM 6.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_matchers import Fleet
from tidings_lab.workload import fitted, numbered_posts, workloads


def steps(parameters: Parameters) -> int:
    lists = ("kinds", "matchers", "split", "algorithms")
    return int(parameters["folds_run"] * np.prod([len(parameters[name]) for name in lists]))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each fold, kind of subscriptions, number of matchers, with and without splitting, and algorithm."""
    for fold, kind, subscribed in workloads(numbered_posts(posts.texts), parameters, seed):
        unseen = subscribed.received(fold.unseen)
        for matchers in parameters["matchers"]:
            for split in parameters["split"]:
                for algorithm in parameters["algorithms"]:
                    start = time.perf_counter()
                    plan = fitted(algorithm, subscribed, fold.known, matchers, split)
                    seconds = time.perf_counter() - start
                    fleet = Fleet(subscribed, plan, parameters["placement"], seed)
                    work = fleet.work(unseen, parameters["repetitions"])
                    about = {"fold": fold.number, "kind": kind, "matchers": matchers, "split": split}
                    row = {**about, "algorithm": algorithm, "learning_seconds": seconds, **work.described()}
                    yield f"{algorithm} on {matchers}, {kind}-based, fold {fold.number + 1}", [row]
