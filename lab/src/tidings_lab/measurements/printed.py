"""S³-TM as printed: multicast, LASP and trie, next to the router, the placement and the matcher of Tidings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from time import process_time

import numpy as np
import pyarrow as pa

from tidings.index.segment import build_segment
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.matching.trie import TrieMatcher, rank_lexicographically
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.as_printed import CountingTrie, LookupLine, PrintedCluster, list_rows
from tidings_lab.clock import time_repetitions
from tidings_lab.datasets import Posts
from tidings_lab.measurements.scalability import compare_noise
from tidings_lab.plan_learner import PlanLearner, list_arms
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_matchers import Run, SimulatedCluster, measure_in_turns
from tidings_lab.workload import NumberedSubscriptions, Workload, iter_workloads, take_posts

_FEWEST = 30  # subscriptions in the smallest trie
_VARIANTS = ("random placement", "Tidings")  # of the plan of SALB, next to the cluster as printed
_LOOKUPS, _TRIE, _KERNEL = "look-ups in the trie", "trie, ns", "kernels of Tidings, ns"


def steps(parameters: Parameters) -> int:
    workloads = parameters["folds_run"] * prod(len(parameters[name]) for name in ("datasets", "kinds"))
    return int(workloads * (len(parameters["matchers"]) + 1))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield the cost over the words of a trie, and the comparison of all arms per number of matchers."""
    for workload in iter_workloads(posts, parameters, seed):
        yield f"{workload}, cost", partial(_measure_costs, workload, parameters)
        for matchers in parameters["matchers"]:
            yield f"{workload}, {matchers} matchers", partial(_compare, workload, matchers, parameters, seed)


def _compare(workload: Workload, matchers: int, parameters: Parameters, seed: int) -> list[Row]:
    """Measure all arms as printed and the variants of SALB in turns, the first arm twice."""
    line = fit_lookups(workload, parameters)
    learner = PlanLearner(workload.subscribed, workload.fold.known, matchers)
    arms = list_arms(parameters["algorithms"], ["terms"], parameters["split"])
    unseen, rows, runs = workload.subscribed.analyze(workload.fold.unseen), list[Row](), list[Run]()
    for arm in arms:
        plan = learner.learn(arm)
        for system in ("as printed", *(_VARIANTS if arm.algorithm == "salb" else ())):
            row: Row = {**workload.about, "matchers": matchers, **arm._asdict(), "system": system}
            if system == "Tidings":
                ours = SimulatedCluster(workload.subscribed, plan, "anchor", seed)
                runs.append(Run(ours, unseen))
            else:
                start, placement = process_time(), "lasp" if system == "as printed" else "random"
                cluster = PrintedCluster(workload.subscribed, plan, placement, line, seed)
                row |= {"building_seconds": process_time() - start, "copies": cluster.copies}
                row |= {"words": float(cluster.words.mean())}
                row |= {"word_imbalance": float(cluster.words.max() / max(1.0, cluster.words.mean()))}
                runs.append(Run(cluster, unseen))
            rows.append(row)
    *works, again = measure_in_turns([*runs, runs[0]], parameters["repetitions"])
    rows[0]["differs"] = compare_noise(works[0], again)
    assert len({work.matches for work in works}) == 1, "the arms do not find the same matches"
    return [{**row, **work.to_dict()} for row, work in zip(rows, works, strict=True)]


def _measure_costs(workload: Workload, parameters: Parameters) -> list[Row]:
    """Measure the cost per post over the words of a growing number of subscriptions, and fit lines (figure 4.1)."""
    points: list[Row] = []
    for count in _growing(len(workload.subscribed), parameters["cost_points"]):
        points += _measure_cost(workload, count, parameters)
    rows = [{**workload.about, "part": "cost", **point} for point in points]
    for cost in (_LOOKUPS, _TRIE, _KERNEL):
        words, values = (np.array([row[name] for row in points if row["cost"] == cost]) for name in ("words", "value"))
        per_word, base = np.polyfit(words, values, 1)
        explained = float(np.corrcoef(words, values)[0, 1] ** 2)
        fitted = {"part": "line", "cost": cost, "base": float(base), "per_word": float(per_word), "r2": explained}
        rows.append({**workload.about, **fitted})
    return rows


def _growing(count: int, points: int) -> list[int]:
    """Return growing numbers of subscriptions up to `count`; from few, because topics soon have no other words."""
    counts: list[int] = np.unique(np.geomspace(min(count, _FEWEST), count, points).astype(int)).tolist()
    return counts


def _measure_cost(workload: Workload, count: int, parameters: Parameters) -> list[Row]:
    """Measure the first subscriptions on one matcher, which gets the posts with the words of these subscriptions."""
    part, posts = _take_subscriptions(workload, count, parameters["cost_posts"])
    trie = TrieMatcher(part.conjunctions, rank_lexicographically(part.terms))
    kernel = SegmentMatcher(build_segment(part.conjunctions, pa.array(np.arange(count))), len(part.terms))
    nowhere, repetitions = missing_positions(len(posts)), parameters["repetitions"]
    kernel.match(posts, nowhere)  # grows the buffers
    measured = {
        _LOOKUPS: float(count_lookups(part, posts)),
        _TRIE: 1e9 * time_repetitions(lambda: trie.match(posts, nowhere), repetitions).best_cpu,
        _KERNEL: 1e9 * time_repetitions(lambda: kernel.match(posts, nowhere), repetitions).best_cpu,
    }
    about = {"subscribed": count, "words": len(part.terms)}
    return [{**about, "cost": cost, "value": value / len(posts)} for cost, value in measured.items()]


def _take_subscriptions(workload: Workload, count: int, posts: int) -> tuple[NumberedSubscriptions, AnalyzedBatch]:
    """Return the first subscriptions, and posts with their words only."""
    part = workload.subscribed.first(count)
    return part, part.analyze(take_posts(workload.fold.unseen, np.arange(min(len(workload.fold.unseen), posts))))


def count_lookups(subscribed: NumberedSubscriptions, posts: AnalyzedBatch) -> int:
    """Return the look-ups of all posts in the trie of these subscriptions."""
    trie = CountingTrie(list_rows(subscribed.conjunctions, rank_lexicographically(subscribed.terms)))
    return sum(trie.visit(posts.terms[start:end].tolist())[1] for start, end in posts.bounds.tolist())


def fit_lookups(workload: Workload, parameters: Parameters) -> LookupLine:
    """Return the line of figure 4.1 for these subscriptions, which LASP uses."""
    words, lookups = list[int](), list[float]()
    for count in _growing(len(workload.subscribed), parameters["cost_points"]):
        part, posts = _take_subscriptions(workload, count, parameters["cost_posts"])
        words.append(len(part.terms))
        lookups.append(count_lookups(part, posts) / len(posts))
    per_word, base = np.polyfit(words, lookups, 1)
    return LookupLine(max(0.0, float(base)), float(per_word))
