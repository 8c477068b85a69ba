"""From a hundred to ten million distinct subscriptions for every placement (S³-TM 6.3)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from time import process_time

import numpy as np

from tidings_lab.datasets import Posts
from tidings_lab.measurements.scalability import compare_noise
from tidings_lab.plan_learner import CORPORA, Arm, PlanLearner
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import MatcherWork, Run, SimulatedCluster, measure_in_turns
from tidings_lab.workload import Workload, iter_workloads, take_posts

Contender = tuple[Arm, str]  # how the plan is learned, and the placement


def steps(parameters: Parameters) -> int:
    return int(parameters["folds_run"]) * prod(len(parameters[name]) for name in ("datasets", "kinds", "subscriptions"))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield the comparison of all algorithms and placements per data set, fold, number and kind of subscriptions."""
    for workload in iter_workloads(posts, parameters, seed):
        yield str(workload), partial(_compare, workload, parameters, seed)


def _contenders(parameters: Parameters, size: int) -> list[Contender]:
    """Return all algorithms with the first placement, and `salb+` with all placements and both corpora.

    With very many subscriptions only the first two algorithms, and `salb+` as in the product.
    """
    first, split = parameters["placements"][0], parameters["split"]
    learned = [(Arm(name, "terms", split), first) for name in parameters["algorithms"]]
    if size > parameters["all_up_to"]:
        return [*learned[:2], (Arm("salb+", "anchors", split), "anchor")]
    ours = [Arm("salb+", corpus, split) for corpus in CORPORA]
    placed = [(arm, name) for arm in ours for name in parameters["placements"]]
    return list(dict.fromkeys([*learned, *placed]))


def _compare(workload: Workload, parameters: Parameters, seed: int) -> list[Row]:
    """Measure all contenders in turns, the first one twice; one after another where the memory demands it."""
    learner = PlanLearner(workload.subscribed, workload.fold.known, parameters["matchers"])
    size = workload.about["subscriptions"]
    unseen = workload.subscribed.analyze(_limit_posts(workload.fold.unseen, size, parameters["matches_up_to"]))
    in_turns = size <= parameters["in_turns_up_to"]
    measured: list[tuple[Row, MatcherWork]] = []
    waiting: list[tuple[Row, Run]] = []
    for arm, placement in _contenders(parameters, size):
        plan = learner.learn(arm)
        start = process_time()
        cluster = SimulatedCluster(workload.subscribed, plan, placement, seed)
        row = {**workload.about, **arm._asdict(), "placement": placement, "in_turns": in_turns}
        row |= {"building_seconds": process_time() - start, **_describe_shards(cluster)}
        waiting += [(row, Run(cluster, unseen))] * (1 if measured or waiting else 2)
        if not in_turns:
            measured += _measure(waiting, parameters["repetitions"])
    (first, work), (_, again), *rest = [*measured, *_measure(waiting, parameters["repetitions"])]
    first["differs"] = compare_noise(work, again)
    return [{**row, **work.to_dict()} for row, work in ((first, work), *rest)]


def _measure(waiting: list[tuple[Row, Run]], repetitions: int) -> list[tuple[Row, MatcherWork]]:
    works = measure_in_turns([run for _, run in waiting], repetitions)
    found = [(row, work) for (row, _), work in zip(waiting, works, strict=True)]
    waiting.clear()
    return found


def _limit_posts(posts: NumberedPosts, subscriptions: int, matches: int) -> NumberedPosts:
    """Return fewer posts for very many subscriptions: the number of matches grows with both."""
    return take_posts(posts, np.arange(min(len(posts), max(100, matches // subscriptions))))


def _describe_shards(cluster: SimulatedCluster) -> Row:
    """Return what a placement decides: distinct terms and subscriptions per matcher, and their imbalance."""
    terms = np.array([sum(len(view.terms) for view in cluster.index.open_shard(n)) for n in range(cluster.matchers)])
    held = np.array([sum(len(view.segment) for view in cluster.index.open_shard(n)) for n in range(cluster.matchers)])
    return {
        "words": float(terms.mean()),
        "word_imbalance": float(terms.max() / max(1.0, terms.mean())),
        "copies": float(held.sum() / max(1, cluster.index.manifest.subscriptions)),
        "subscription_imbalance": float(held.max() / max(1.0, held.mean())),
    }
