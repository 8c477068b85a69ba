"""From a hundred to ten million subscriptions for every placement; cost of a term (S³-TM 6.3, figure 4.1)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import MatcherWork, SimulatedCluster
from tidings_lab.workload import NumberedSubscriptions, fit_plan, iter_workloads, number_posts, take_posts


def steps(parameters: Parameters) -> int:
    each = len(parameters["placements"]) + len(parameters["algorithms"]) - 1
    return int(parameters["folds_run"] * len(parameters["kinds"]) * len(parameters["sizes"]) * each + 1)


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per fold, kind and number of subscriptions, placement and algorithm; then the fitted cost.

    All placements run with the first algorithm, all algorithms with the first placement.
    """
    numbered = number_posts(posts.texts)
    costs: list[Row] = []
    placements, algorithms = parameters["placements"], parameters["algorithms"]
    tried = [(name, placements[0]) for name in algorithms] + [(algorithms[0], name) for name in placements[1:]]
    for size in parameters["sizes"]:
        for fold, kind, subscribed in iter_workloads(numbered, {**parameters, "subscriptions": size}, seed):
            unseen = subscribed.analyze(_limit_posts(fold.unseen, size, parameters["matches_up_to"]))
            for algorithm, placement in tried:
                plan = fit_plan(algorithm, subscribed, fold.known, parameters["matchers"])
                start = time.perf_counter()
                cluster = SimulatedCluster(subscribed, plan, placement, seed)
                seconds = time.perf_counter() - start
                work = cluster.work(unseen, parameters["repetitions"])
                about = {"fold": fold.number, "kind": kind, "subscriptions": size}
                row = {**about, "algorithm": algorithm, "placement": placement, "building_seconds": seconds}
                terms = _terms_per_matcher(cluster, subscribed)
                yield (
                    f"{size:,} {kind}-based subscriptions, {algorithm}, {placement}",
                    [{**row, **work.to_dict(), "words": float(terms.mean())}],
                )
                if (algorithm, placement) == tried[0]:
                    costs += _measured_costs(kind, terms, work, parameters["cost_from"])
    yield "cost of a term", costs + [row for kind in parameters["kinds"] for row in _fit_line(kind, costs)]


def _limit_posts(posts: NumberedPosts, subscriptions: int, matches: int) -> NumberedPosts:
    """Return fewer posts for very many subscriptions: the number of matches grows with both."""
    return take_posts(posts, np.arange(min(len(posts), max(100, matches // subscriptions))))


def _terms_per_matcher(cluster: SimulatedCluster, subscribed: NumberedSubscriptions) -> Any:
    terms = [sum(len(live.terms) for live in cluster.index.open_shard(number)) for number in range(cluster.matchers)]
    return np.array(terms)


def _measured_costs(kind: str, terms: Any, work: MatcherWork, min_posts: int) -> list[Row]:
    """Return the cost per post of matchers with at least `min_posts` posts; with few, calls dominate."""
    busy = np.flatnonzero(work.loads >= min_posts)
    ns = 1e9 * work.best[busy] / work.loads[busy]
    return [
        {"kind": kind, "cost": "measured", "words": words, "ns": cost}
        for words, cost in zip(terms[busy].tolist(), ns.tolist(), strict=True)
    ]


def _fit_line(kind: str, costs: list[Row]) -> list[Row]:
    """Fit a line through the costs. Returns its two ends with the explained variance."""
    rows = [row for row in costs if row["kind"] == kind]
    words, ns = (np.array([row[name] for row in rows], np.float64) for name in ("words", "ns"))
    if len(np.unique(words)) < 2:
        return []
    per_term, base = np.polyfit(words, ns, 1)
    explained = 1 - float(((ns - base - per_term * words) ** 2).sum() / ((ns - ns.mean()) ** 2).sum())
    line = [{"words": end, "ns": base + per_term * end} for end in (0.0, float(words.max()))]
    about = {"kind": kind, "cost": "fitted", "r2": explained, "base_ns": float(base), "per_term_ns": float(per_term)}
    return [{**about, **end} for end in line]
