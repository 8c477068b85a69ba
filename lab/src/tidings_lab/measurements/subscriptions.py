"""From a hundred subscriptions to ten million on sixteen matchers, placed in every way, and what a word costs a matcher
(S³-TM 6.3 and figure 4.1)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Fleet, Work
from tidings_lab.workload import Subscribed, fitted, numbered_posts, take_posts, workloads


def steps(parameters: Parameters) -> int:
    each = len(parameters["placements"]) + len(parameters["algorithms"]) - 1
    return int(parameters["folds_run"] * len(parameters["kinds"]) * len(parameters["sizes"]) * each + 1)


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each fold, kind and number of subscriptions, placement and algorithm; then the line of the cost.

    All placements are tried with the first algorithm, all algorithms with the first placement.
    """
    numbered = numbered_posts(posts.texts)
    costs: list[Row] = []
    placements, algorithms = parameters["placements"], parameters["algorithms"]
    tried = [(name, placements[0]) for name in algorithms] + [(algorithms[0], name) for name in placements[1:]]
    for size in parameters["sizes"]:
        for fold, kind, subscribed in workloads(numbered, {**parameters, "subscriptions": size}, seed):
            unseen = subscribed.received(_affordable(fold.unseen, size, parameters["matches_up_to"]))
            for algorithm, placement in tried:
                plan = fitted(algorithm, subscribed, fold.known, parameters["matchers"])
                start = time.perf_counter()
                fleet = Fleet(subscribed, plan, placement, seed)
                seconds = time.perf_counter() - start
                work = fleet.work(unseen, parameters["repetitions"])
                about = {"fold": fold.number, "kind": kind, "subscriptions": size}
                row = {**about, "algorithm": algorithm, "placement": placement, "building_seconds": seconds}
                held = _words_held(fleet, subscribed)
                yield (
                    f"{size:,} {kind}-based subscriptions, {algorithm}, {placement}",
                    [{**row, **work.described(), "words": float(held.mean())}],
                )
                if (algorithm, placement) == tried[0]:
                    costs += _costs(kind, held, work, parameters["cost_from"])
    yield "the cost of a word", costs + [row for kind in parameters["kinds"] for row in _fitted(kind, costs)]


def _affordable(posts: NumberedPosts, subscriptions: int, matches: int) -> NumberedPosts:
    """Fewer posts for very many subscriptions: every post finds a share of them."""
    return take_posts(posts, np.arange(min(len(posts), max(100, matches // subscriptions))))


def _words_held(fleet: Fleet, subscribed: Subscribed) -> Any:
    held = [sum(len(live.words) for live in fleet.index.shard(number)) for number in range(fleet.matchers)]
    return np.array(held)


def _costs(kind: str, held: Any, work: Work, fewest: int) -> list[Row]:
    """What a post cost each matcher that got so many: of few posts, the cost of being called at all would show."""
    busy = np.flatnonzero(work.loads >= fewest)
    ns = 1e9 * work.best[busy] / work.loads[busy]
    return [
        {"kind": kind, "cost": "measured", "words": words, "ns": cost}
        for words, cost in zip(held[busy].tolist(), ns.tolist(), strict=True)
    ]


def _fitted(kind: str, costs: list[Row]) -> list[Row]:
    """The line through what was measured, by its two ends, and how much of the variance it explains."""
    mine = [row for row in costs if row["kind"] == kind]
    words, ns = (np.array([row[name] for row in mine], np.float64) for name in ("words", "ns"))
    if len(np.unique(words)) < 2:
        return []
    each, base = np.polyfit(words, ns, 1)
    explained = 1 - float(((ns - base - each * words) ** 2).sum() / ((ns - ns.mean()) ** 2).sum())
    line = [{"words": end, "ns": base + each * end} for end in (0.0, float(words.max()))]
    about = {"kind": kind, "cost": "fitted", "r2": explained, "base_ns": float(base), "each_ns": float(each)}
    return [{**about, **end} for end in line]
