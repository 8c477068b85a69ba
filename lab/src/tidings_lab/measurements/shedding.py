"""Load shedding: matches found over load shed (S³-TM 6.5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from tidings.routing.shed import ShedDecision
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.datasets import Posts
from tidings_lab.measurements.scalability import compare_noise
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_matchers import MatcherWork, Run, SimulatedCluster, measure_in_turns
from tidings_lab.workload import Workload, fit_plan, iter_workloads


def steps(parameters: Parameters) -> int:
    return int(parameters["folds_run"]) * prod(len(parameters[name]) for name in ("datasets", "kinds", "matchers"))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield a row per data set, fold, kind of subscriptions, number of matchers, policy and limit."""
    for workload in iter_workloads(posts, parameters, seed):
        for matchers in parameters["matchers"]:
            yield f"{workload}, {matchers} matchers", partial(_compare, workload, matchers, parameters, seed)


def _compare(workload: Workload, matchers: int, parameters: Parameters, seed: int) -> list[Row]:
    """Measure all policies and limits in turns, next to two runs without shedding.

    `shed` is the share of (post, matcher) pairs not sent, `time_shed` the share of CPU time saved.
    """
    plan = fit_plan(parameters["algorithm"], workload.subscribed, workload.fold.known, matchers)
    cluster = SimulatedCluster(workload.subscribed, plan, parameters["placement"], seed)
    received = workload.subscribed.analyze(workload.fold.unseen)
    tried = _list_policies(parameters, matchers)
    decisions = [ShedDecision(), *(ShedDecision(policy, limit, seed) for policy, limit in tried), ShedDecision()]
    whole, *works, again = measure_in_turns(
        [Run(cluster, received, decision) for decision in decisions], parameters["repetitions"]
    )
    rows = [
        {"policy": policy, "limit": limit, **_describe_shedding(work, whole)}
        for (policy, limit), work in zip(tried, works, strict=True)
    ]
    rows[0]["differs"] = compare_noise(whole, again)
    rows += _oracles(cluster, received, parameters)
    return [{**workload.about, "matchers": matchers, **row} for row in rows]


def _list_policies(parameters: Parameters, matchers: int) -> list[tuple[str, float]]:
    """Return every policy with its limits; the last limit of each sheds nothing."""
    limits, pass_rates = [*parameters["limits"], matchers], [*parameters["pass_rates"], 1.0]
    every = (("subscription", limits), ("consensus", limits), ("random", pass_rates))
    return [(policy, limit) for policy, values in every for limit in values]


def _describe_shedding(work: MatcherWork, whole: MatcherWork) -> Row:
    return {
        "sent": int(work.loads.sum()),
        "shed": 1 - float(work.loads.sum()) / float(whole.loads.sum()),
        "time_shed": 1 - float(work.best.sum()) / float(whole.best.sum()),
        "accuracy": work.matches / whole.matches if whole.matches else 1.0,
        "matches": whole.matches,
    }


def _oracles(cluster: SimulatedCluster, received: AnalyzedBatch, parameters: Parameters) -> Iterator[Row]:
    """Yield what shedding could reach if the matches of every post were known."""
    worth = cluster.count_matches(cluster.route(received).batches, len(received))
    sent = np.sort(worth[worth >= 0])
    for share in (*parameters["pass_rates"], 1.0):
        yield {"policy": "oracle", "limit": share, "shed": 1 - share, **_oracle(sent, share)}
    for limit in (*parameters["limits"], cluster.matchers):
        yield {"policy": "oracle by levels", "limit": limit, **_oracle_by_levels(worth, limit)}


def _oracle(worth: NDArray[np.int32], share: float) -> Row:
    """Shed the (post, matcher) pairs with the fewest matches, as if these were known in advance."""
    shed = worth[: round(len(worth) * (1 - share))]
    found = 1 - float(shed.sum()) / float(max(1, worth.sum()))
    return {"accuracy": found, "without_match": float((worth == 0).mean())}


def _oracle_by_levels(worth: NDArray[np.int32], limit: float) -> Row:
    """The same if only the number of matchers per post can be limited; each post keeps its best matchers."""
    ranked = -np.sort(-worth, axis=1)
    goes = np.clip(limit - np.arange(ranked.shape[1]), 0.0, 1.0)
    found, sent = np.maximum(ranked, 0).sum(axis=0), (ranked >= 0).sum(axis=0)
    accuracy = float(goes @ found) / float(found.sum()) if found.any() else 1.0
    return {"accuracy": accuracy, "shed": 1 - float(goes @ sent) / float(sent.sum()) if sent.any() else 0.0}
