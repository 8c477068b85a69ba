"""Learning time, and throughput over the size of the sample (S³-TM 6.6; journal version, figure 13)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tidings.balance.word_registry import WORD_ALGORITHMS
from tidings_lab.clock import time_repetitions
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import corpus_of_all_terms, draw_tweet_based, fit_plan, make_folds, number_posts, take_posts


def steps(parameters: Parameters) -> int:
    timings = sum(len(_sizes(parameters, name)) for name in parameters["algorithms"]) * len(parameters["matchers"])
    sampled = parameters["folds_run"] * len(parameters["samples"]) * len(parameters["sampled_algorithms"])
    return int(timings + sampled)


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield rows with `seconds` per corpus size and algorithm, and rows with `throughput` per sample size."""
    numbered = number_posts(posts.texts)
    yield from _learning_times(numbered, parameters, seed)
    yield from _sample_sizes(numbered, parameters, seed)


def _sizes(parameters: Parameters, name: str) -> list[int]:
    slow = name not in ("salb", "salb+")
    return [size for size in parameters["sizes"] if not slow or size <= parameters["graphs_up_to"]]


def _learning_times(numbered: NumberedPosts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """All terms count as subscribed: the worst case, as in the paper.

    Seconds are CPU time, so that other load on the machine has little influence.
    """
    order = np.random.default_rng([seed, 40]).permutation(len(numbered))
    for size in parameters["sizes"]:
        corpus = corpus_of_all_terms(take_posts(numbered, np.sort(order[:size])))
        facts = {"words": len(corpus.terms), "occurrences": len(corpus.post_terms), "learned": corpus.size}
        for name in parameters["algorithms"]:
            if size not in _sizes(parameters, name):
                continue
            for matchers in parameters["matchers"]:
                times = time_repetitions(partial(WORD_ALGORITHMS[name], corpus, matchers), parameters["repetitions"])
                spent = {"seconds": times.best_cpu, "cpu_seconds": times.cpu, "wall_seconds": times.wall}
                row = {"algorithm": name, "matchers": matchers, **spent, **facts}
                yield f"{name} learns {corpus.size:,} posts for {matchers}", [row]


def _sample_sizes(numbered: NumberedPosts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Learn plans from growing samples of nine folds and measure them on the tenth."""
    largest = max(parameters["samples"])
    for fold in make_folds(numbered, parameters["folds"], parameters["folds_run"], largest, parameters["tested"], seed):
        subscribed = draw_tweet_based(fold.known, parameters["subscriptions"], seed + fold.number)
        unseen = subscribed.analyze(fold.unseen)
        order = np.random.default_rng([seed, 41, fold.number]).permutation(len(fold.known))
        for sample in parameters["samples"]:
            known = take_posts(fold.known, np.sort(order[:sample]))
            for name in parameters["sampled_algorithms"]:
                plan = fit_plan(name, subscribed, known, parameters["sampled_matchers"])
                work = SimulatedCluster(subscribed, plan, parameters["placement"], seed).work(
                    unseen, parameters["repetitions"]
                )
                about = {"fold": fold.number, "algorithm": name, "sample": sample}
                yield f"{name} learned from {sample:,}, fold {fold.number + 1}", [{**about, **work.to_dict()}]
