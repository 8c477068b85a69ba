"""Load shedding: matches found over load shed (S³-TM 6.5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tidings.routing.shed import ShedDecision
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import fit_plan, iter_workloads, number_posts


def steps(parameters: Parameters) -> int:
    tried = 3 * (len(parameters["limits"]) + 1) + 2 * (len(parameters["pass_rates"]) + 1)
    return int(parameters["folds_run"] * len(parameters["kinds"]) * len(parameters["matchers"]) * tried)


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per fold, kind of subscriptions, number of matchers, policy and limit.

    `shed` is the share of (post, matcher) pairs not sent, `time_shed` the share of CPU time saved.
    """
    for fold, kind, subscribed in iter_workloads(number_posts(posts.texts), parameters, seed):
        received = subscribed.analyze(fold.unseen)
        for matchers in parameters["matchers"]:
            plan = fit_plan(parameters["algorithm"], subscribed, fold.known, matchers)
            cluster = SimulatedCluster(subscribed, plan, parameters["placement"], seed)
            about = {"fold": fold.number, "kind": kind, "matchers": matchers}
            for row in _measure_policies(cluster, received, parameters, seed):
                step = f"{row['policy']} shedding to {row['limit']:g}, {matchers} matchers, {kind}-based"
                yield step, [{**about, **row}]


def _measure_policies(
    cluster: SimulatedCluster, received: AnalyzedBatch, parameters: Parameters, seed: int
) -> Iterator[Row]:
    """Yield a row per policy and limit, relative to the same posts without shedding."""
    routed = cluster.route(received).batches
    everything = len(cluster.find_matches(routed))
    whole = cluster.match(routed, len(received), parameters["repetitions"])
    limits, pass_rates = (
        [*parameters["limits"], cluster.matchers],
        [*parameters["pass_rates"], 1.0],
    )  # the last ones shed nothing
    for policy, tried in (("subscription", limits), ("consensus", limits), ("random", pass_rates)):
        for limit in tried:
            left = cluster.route(received, ShedDecision(policy, limit, seed))
            work = cluster.match(left.batches, len(received), parameters["repetitions"])
            yield {
                "policy": policy,
                "limit": limit,
                "sent": int(work.loads.sum()),
                "shed": 1 - float(work.loads.sum()) / float(whole.loads.sum()),
                "time_shed": 1 - float(work.best.sum()) / float(whole.best.sum()),
                "accuracy": len(cluster.find_matches(left.batches)) / everything if everything else 1.0,
                "matches": everything,
            }
    worth = cluster.count_matches(routed, len(received))
    sent = np.sort(worth[worth >= 0])
    for share in pass_rates:
        yield {"policy": "oracle", "limit": share, "shed": 1 - share, **_oracle(sent, share)}
    for limit in limits:
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
