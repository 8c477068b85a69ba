"""Throughput of a plan weeks after it was learned, while posts and subscriptions change (S³-TM 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tidings.balance.word_registry import fit_word_plan
from tidings.plan.words import WordPlan
from tidings_lab.datasets import Posts, weeks_of
from tidings_lab.measurements.scalability import compare_noise
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Run, SimulatedCluster, measure_in_turns
from tidings_lab.workload import (
    corpus_of_all_terms,
    draw_topic_based,
    find_topics,
    number_posts,
    take_posts,
    words_per_topic,
)


def steps(parameters: Parameters) -> int:
    return len(_weeks(parameters)) * int(parameters["folds_run"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield rows per week: plans learned in the first weeks, and a `fresh` one of the last weeks.

    Every week has its own topics and subscriptions. `weeks` is the middle of five, as in the paper's figures.
    """
    weeks = weeks_of(posts)
    numbered = number_posts(posts.texts)
    for repeat in range(parameters["folds_run"]):
        plans = cache(partial(_learn_first_weeks, numbered, weeks, parameters, seed + repeat))
        for week in _weeks(parameters):
            step = f"week {week}, repetition {repeat + 1}"
            yield step, partial(_measure_week, numbered, weeks, plans, week, repeat, parameters, seed)


def _weeks(parameters: Parameters) -> list[int]:
    """Return 0 for the first weeks, from which plans are learned, and the weeks that are measured."""
    return [0, *range(parameters["learned_weeks"], parameters["weeks"], parameters["every_weeks"])]


def _learn_first_weeks(
    numbered: NumberedPosts, weeks: NDArray[np.float64], parameters: Parameters, seed: int
) -> dict[str, WordPlan]:
    known, *_ = _split_week(numbered, weeks, 0, parameters, seed)
    corpus = corpus_of_all_terms(known)
    return {name: fit_word_plan(name, corpus, parameters["matchers"]) for name in parameters["algorithms"]}


def _measure_week(
    numbered: NumberedPosts,
    weeks: NDArray[np.float64],
    first_plans: Callable[[], dict[str, WordPlan]],
    week: int,
    repeat: int,
    parameters: Parameters,
    seed: int,
) -> list[Row]:
    known, of_week, unseen = _split_week(numbered, weeks, week, parameters, seed + repeat)
    if len(unseen) < parameters["tested"]:
        return []  # some weeks have few posts; with fewer, a post costs more
    words = words_per_topic(parameters["subscriptions"], parameters["topics"])
    topics = find_topics(of_week, parameters["topics"], parameters["iterations"], seed + repeat, words)
    subscribed = draw_topic_based(topics, known, parameters["subscriptions"], seed + repeat)
    plans = dict(first_plans())
    plans["fresh"] = fit_word_plan(parameters["fresh"], corpus_of_all_terms(known), parameters["matchers"])
    clusters = [SimulatedCluster(subscribed, plan, parameters["placement"], seed) for plan in plans.values()]
    received = subscribed.analyze(unseen)
    runs = [Run(cluster, received) for cluster in (*clusters, clusters[0])]
    *works, again = measure_in_turns(runs, parameters["repetitions"])
    middle = parameters["weeks"] / 2
    period = "first" if week == 0 else "early" if week <= middle else "late"
    about = {
        "fold": repeat,
        "week": week,
        "weeks": week - week % 5 + 2 if week else 0,
        "period": period,
        "known": len(known),
    }
    about |= {"distinct": subscribed.count_distinct(), "posts": len(unseen)}
    rows = [{**about, "algorithm": name, **work.to_dict()} for name, work in zip(plans, works, strict=True)]
    rows[0]["differs"] = compare_noise(works[0], again)
    return rows


def _split_week(
    numbered: NumberedPosts, weeks: NDArray[np.float64], week: int, parameters: Parameters, seed: int
) -> tuple[NumberedPosts, NumberedPosts, NumberedPosts]:
    """Return the posts to learn from, those of the week, and a sample of the week to measure.

    A plan of a week is learned from the weeks before it; that of week 0 from the other posts of the first weeks.
    """
    learned = parameters["learned_weeks"]
    first, end = (week, week + 1) if week else (0, learned)
    of_week = np.flatnonzero((weeks >= first) & (weeks < end))
    unseen = np.sort(np.random.default_rng([seed, 51, week]).permutation(of_week)[: parameters["tested"]])
    before = np.flatnonzero((weeks >= week - learned) & (weeks < week))
    known = before if week else np.setdiff1d(of_week, unseen)
    return take_posts(numbered, known), take_posts(numbered, of_week), take_posts(numbered, unseen)
