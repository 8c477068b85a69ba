"""Throughput from two to hundreds of matchers for every partitioner (S³-TM 6.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from math import prod

from tidings_lab.datasets import Posts
from tidings_lab.plan_learner import PlanLearner, list_arms
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_matchers import MatcherWork, Run, SimulatedCluster, measure_in_turns
from tidings_lab.workload import Workload, iter_workloads


def steps(parameters: Parameters) -> int:
    return int(parameters["folds_run"]) * prod(len(parameters[name]) for name in ("datasets", "kinds", "matchers"))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield the comparison of all arms per data set, fold, kind of subscriptions and number of matchers."""
    for workload in iter_workloads(posts, parameters, seed):
        for matchers in parameters["matchers"]:
            yield f"{workload}, {matchers} matchers", partial(_compare, workload, matchers, parameters, seed)


def _compare(workload: Workload, matchers: int, parameters: Parameters, seed: int) -> list[Row]:
    """Measure all arms in turns, the first one twice: `differs` is the noise."""
    learner = PlanLearner(workload.subscribed, workload.fold.known, matchers)
    arms = list_arms(parameters["algorithms"], parameters["corpora"], parameters["split"])
    clusters, learning = [], []
    for arm in (*arms, arms[0]):
        start = time.process_time()
        plan = learner.learn(arm)
        learning.append(time.process_time() - start)
        clusters.append(SimulatedCluster(workload.subscribed, plan, parameters["placement"], seed))
    unseen = workload.subscribed.analyze(workload.fold.unseen)
    works = measure_in_turns([Run(cluster, unseen) for cluster in clusters], parameters["repetitions"])
    about = {**workload.about, "matchers": matchers}
    rows = [
        {**about, **arm._asdict(), "learning_seconds": seconds, **work.to_dict()}
        for arm, seconds, work in zip(arms, learning, works, strict=False)
    ]
    rows[0]["differs"] = compare_noise(works[0], works[-1])
    return rows


def compare_noise(first: MatcherWork, again: MatcherWork) -> float:
    """Return how many times as fast one of two measurements of the same plan was."""
    rates = sorted((first.throughput, again.throughput))
    return rates[1] / rates[0] if rates[0] else 1.0
