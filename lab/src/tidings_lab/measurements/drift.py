"""Throughput of a plan weeks after it was learned, while posts and subscriptions change (S³-TM 6.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.word_registry import fit_word_plan
from tidings.plan.words import WordPlan
from tidings_lab.datasets import Posts, weeks_of
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import corpus_of_all_terms, draw_topic_based, find_topics, number_posts, take_posts


def steps(parameters: Parameters) -> int:
    return int(parameters["intervals"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield rows per interval of weeks: plans learned in the first interval, and a `fresh` one of the same interval."""
    rows_used = np.arange(0, len(posts), parameters["every"])
    weeks = weeks_of(posts)[rows_used]
    length = float(np.nextafter(weeks.max(), np.inf)) / parameters["intervals"]
    numbered = number_posts(posts.texts.take(pa.array(rows_used)))
    matchers, old = parameters["matchers"], dict[tuple[str, int], WordPlan]()
    for interval in range(parameters["intervals"]):
        rows = np.flatnonzero((weeks / length).astype(int) == interval)
        measured: list[Row] = []
        for repeat in range(parameters["folds_run"]):
            known, unseen = _split_interval(numbered, rows, parameters["tested"], seed + repeat)
            corpus = corpus_of_all_terms(known)
            if interval == 0:
                old |= {(name, repeat): fit_word_plan(name, corpus, matchers) for name in parameters["algorithms"]}
            topics = find_topics(known, parameters["topics"], parameters["iterations"], seed + repeat)
            subscribed = draw_topic_based(topics, numbered.terms, parameters["subscriptions"], seed + repeat)
            plans = {name: old[name, repeat] for name in parameters["algorithms"]}
            plans["fresh"] = fit_word_plan(parameters["fresh"], corpus, matchers)
            for name, plan in plans.items():
                cluster = SimulatedCluster(subscribed, plan, parameters["placement"], seed)
                work = cluster.work(subscribed.analyze(unseen), parameters["repetitions"])
                late = "first" if interval == 0 else "early" if interval <= parameters["intervals"] // 2 else "late"
                about = {"fold": repeat, "weeks": round(interval * length, 1), "period": late, "algorithm": name}
                measured.append({**about, **work.to_dict()})
        yield f"weeks {interval * length:.0f} to {(interval + 1) * length:.0f}", measured


def _split_interval(
    numbered: NumberedPosts, rows: NDArray[np.intp], tested: int, seed: int
) -> tuple[NumberedPosts, NumberedPosts]:
    """Split the posts of an interval into one half to learn from and a sample of the other half."""
    order = np.random.default_rng([seed, 50]).permutation(rows)
    half = len(order) // 2
    return take_posts(numbered, np.sort(order[:half])), take_posts(numbered, np.sort(order[half : half + tested]))
