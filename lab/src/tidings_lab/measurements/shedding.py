"""Shedding load: how many matches are still found when so much of the load is withheld (S³-TM 6.5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tidings.routing.shed import Shed
from tidings.text.analyzer import Received
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_matchers import Fleet
from tidings_lab.workload import fitted, numbered_posts, workloads


def steps(parameters: Parameters) -> int:
    tried = 3 * (len(parameters["limits"]) + 1) + 2 * (len(parameters["passing"]) + 1)
    return int(parameters["folds_run"] * len(parameters["kinds"]) * len(parameters["matchers"]) * tried)


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each fold, kind of subscriptions, number of matchers, policy and limit.

    `shed` is the share of (post, matcher) pairs that were not sent, `time_shed` that of the matchers' time saved.
    """
    for fold, kind, subscribed in workloads(numbered_posts(posts.texts), parameters, seed):
        received = subscribed.received(fold.unseen)
        for matchers in parameters["matchers"]:
            plan = fitted(parameters["algorithm"], subscribed, fold.known, matchers)
            fleet = Fleet(subscribed, plan, parameters["placement"], seed)
            about = {"fold": fold.number, "kind": kind, "matchers": matchers}
            for row in _shed(fleet, received, parameters, seed):
                told = f"{row['policy']} shedding to {row['limit']:g}, {matchers} matchers, {kind}-based"
                yield told, [{**about, **row}]


def _shed(fleet: Fleet, received: Received, parameters: Parameters, seed: int) -> Iterator[Row]:
    """Every policy with every limit, against the same posts with nothing shed."""
    routed = fleet.route(received).shares
    everything = len(fleet.found(routed))
    whole = fleet.match(routed, len(received), parameters["repetitions"])
    limits, passing = [*parameters["limits"], fleet.matchers], [*parameters["passing"], 1.0]  # the last shed nothing
    for policy, tried in (("subscription", limits), ("consensus", limits), ("random", passing)):
        for limit in tried:
            left = fleet.route(received, Shed(policy, limit, seed))
            work = fleet.match(left.shares, len(received), parameters["repetitions"])
            yield {
                "policy": policy,
                "limit": limit,
                "sent": int(work.loads.sum()),
                "shed": 1 - float(work.loads.sum()) / float(whole.loads.sum()),
                "time_shed": 1 - float(work.best.sum()) / float(whole.best.sum()),
                "accuracy": len(fleet.found(left.shares)) / everything if everything else 1.0,
                "matches": everything,
            }
    worth = fleet.worth(routed, len(received))
    sent = np.sort(worth[worth >= 0])
    for share in passing:
        yield {"policy": "oracle", "limit": share, "shed": 1 - share, **_at_best(sent, share)}
    for limit in limits:
        yield {"policy": "oracle by levels", "limit": limit, **_at_best_by_levels(worth, limit)}


def _at_best(worth: NDArray[np.int32], share: float) -> Row:
    """What would be found if one knew before what every post finds where, and withheld those that find least."""
    withheld = worth[: round(len(worth) * (1 - share))]
    found = 1 - float(withheld.sum()) / float(max(1, worth.sum()))
    return {"accuracy": found, "fruitless": float((worth == 0).mean())}


def _at_best_by_levels(worth: NDArray[np.int32], limit: float) -> Row:
    """The same for who may only say to how many matchers a post goes, those that it finds most at; some to one more."""
    ranked = -np.sort(-worth, axis=1)
    goes = np.clip(limit - np.arange(ranked.shape[1]), 0.0, 1.0)
    found, sent = np.maximum(ranked, 0).sum(axis=0), (ranked >= 0).sum(axis=0)
    accuracy = float(goes @ found) / float(found.sum()) if found.any() else 1.0
    return {"accuracy": accuracy, "shed": 1 - float(goes @ sent) / float(sent.sum()) if sent.any() else 0.0}
