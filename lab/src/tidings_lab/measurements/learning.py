"""How long learning takes, and what a larger sample is worth (S³-TM 6.6; figure 13 of the journal version)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tidings.balance.word_registry import LEARNED
from tidings_lab.clock import timed
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Fleet
from tidings_lab.workload import all_words, deal, fitted, numbered_posts, take_posts, tweet_based


def steps(parameters: Parameters) -> int:
    timed_ones = sum(len(_sizes(parameters, name)) for name in parameters["algorithms"]) * len(parameters["matchers"])
    sampled = parameters["folds_run"] * len(parameters["samples"]) * len(parameters["sampled_algorithms"])
    return int(timed_ones + sampled)


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Rows with `seconds` for every corpus size and algorithm; rows with `throughput` for every sample size."""
    numbered = numbered_posts(posts.texts)
    yield from _learning_times(numbered, parameters, seed)
    yield from _sample_sizes(numbered, parameters, seed)


def _sizes(parameters: Parameters, name: str) -> list[int]:
    slow = name not in ("salb", "salb+")
    return [size for size in parameters["sizes"] if not slow or size <= parameters["graphs_up_to"]]


def _learning_times(numbered: NumberedPosts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """All words count here, as if every one were subscribed to: the worst case, and the paper's.

    Seconds are the processor's, so that what else the machine does hardly matters.
    """
    order = np.random.default_rng([seed, 40]).permutation(len(numbered))
    for size in parameters["sizes"]:
        corpus = all_words(take_posts(numbered, np.sort(order[:size])))
        facts = {"words": len(corpus.terms), "occurrences": len(corpus.words), "learned": corpus.size}
        for name in parameters["algorithms"]:
            if size not in _sizes(parameters, name):
                continue
            for matchers in parameters["matchers"]:
                times = timed(partial(LEARNED[name], corpus, matchers), parameters["repetitions"])
                spent = {"seconds": times.best_cpu, "cpu_seconds": times.cpu, "wall_seconds": times.wall}
                row = {"algorithm": name, "matchers": matchers, **spent, **facts}
                yield f"{name} learns {corpus.size:,} posts for {matchers}", [row]


def _sample_sizes(numbered: NumberedPosts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Plans learned from ever more posts of nine folds, measured with the tenth."""
    largest = max(parameters["samples"])
    for fold in deal(numbered, parameters["folds"], parameters["folds_run"], largest, parameters["tested"], seed):
        subscribed = tweet_based(fold.known, parameters["subscriptions"], seed + fold.number)
        unseen = subscribed.received(fold.unseen)
        order = np.random.default_rng([seed, 41, fold.number]).permutation(len(fold.known))
        for sample in parameters["samples"]:
            known = take_posts(fold.known, np.sort(order[:sample]))
            for name in parameters["sampled_algorithms"]:
                plan = fitted(name, subscribed, known, parameters["sampled_matchers"])
                work = Fleet(subscribed, plan, parameters["placement"], seed).work(unseen, parameters["repetitions"])
                about = {"fold": fold.number, "algorithm": name, "sample": sample}
                yield f"{name} learned from {sample:,}, fold {fold.number + 1}", [{**about, **work.described()}]
