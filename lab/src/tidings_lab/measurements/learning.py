"""Learning time, and throughput over the size of the sample (S³-TM 6.6; journal version, figure 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import WORD_ALGORITHMS
from tidings_lab.clock import time_repetitions
from tidings_lab.datasets import Posts
from tidings_lab.measurements.scalability import compare_noise
from tidings_lab.plan_learner import Arm, PlanLearner
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Run, SimulatedCluster, measure_in_turns
from tidings_lab.workload import Fold, corpus_of_all_terms, draw_tweet_based, make_folds, number_posts, take_posts

_GRAPHS = ("gc", "gfc", "gfcl", "gnfcl")


def steps(parameters: Parameters) -> int:
    return len(list(_timings(parameters))) + int(parameters["folds_run"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield rows with `seconds` per corpus size and algorithm, and rows with `throughput` per sample size."""
    numbered = number_posts(posts.texts)
    corpus = cache(partial(_draw_corpus, numbered, seed))
    for size, name, matchers in _timings(parameters):
        step = f"{name} learns {size:,} posts for {matchers}"
        yield step, partial(_time_learning, corpus, size, name, matchers, parameters["repetitions"])
    largest = max(parameters["samples"])
    for fold in make_folds(numbered, parameters["folds"], parameters["folds_run"], largest, parameters["tested"], seed):
        yield f"samples, fold {fold.number + 1}", partial(_compare_samples, fold, parameters, seed)


def _timings(parameters: Parameters) -> Iterator[tuple[int, str, int]]:
    """Yield (posts, algorithm, matchers). Graphs take minutes: they are cut for the first number of matchers only."""
    for size in parameters["sizes"]:
        for name in parameters["algorithms"]:
            is_graph = name in _GRAPHS
            if not is_graph or size <= parameters["graphs_up_to"]:
                yield from ((size, name, number) for number in parameters["matchers"][: 1 if is_graph else None])


def _draw_corpus(numbered: NumberedPosts, seed: int, size: int) -> Corpus:
    order = np.random.default_rng([seed, 40]).permutation(len(numbered))
    return corpus_of_all_terms(take_posts(numbered, np.sort(order[:size])))


def _time_learning(
    corpus_of: Callable[[int], Corpus], size: int, name: str, matchers: int, repetitions: int
) -> list[Row]:
    """All terms count as subscribed: the worst case, as in the paper. Seconds are CPU time."""
    corpus = corpus_of(size)
    facts = {"words": len(corpus.terms), "occurrences": len(corpus.post_terms), "learned": corpus.size}
    times = time_repetitions(partial(WORD_ALGORITHMS[name], corpus, matchers), repetitions)
    spent = {"seconds": times.best_cpu, "cpu_seconds": times.cpu, "wall_seconds": times.wall}
    return [{"algorithm": name, "matchers": matchers, **spent, **facts}]


def _compare_samples(fold: Fold, parameters: Parameters, seed: int) -> list[Row]:
    """Learn plans from growing samples of nine folds and measure them in turns on the tenth."""
    subscribed = draw_tweet_based(fold.pool(), parameters["subscriptions"], seed + fold.number, fold.known)
    unseen = subscribed.analyze(fold.unseen)
    order = np.random.default_rng([seed, 41, fold.number]).permutation(len(fold.known))
    rows: list[Row] = []
    runs: list[Run] = []
    for sample in parameters["samples"]:
        known = take_posts(fold.known, np.sort(order[:sample]))
        learner = PlanLearner(subscribed, known, parameters["sampled_matchers"])
        for name in parameters["sampled_algorithms"]:
            arm = Arm(name, "anchors" if name == "salb+" else "terms", True)
            plan = learner.learn(arm)
            about = {"fold": fold.number, "sample": len(known), "distinct": subscribed.count_distinct()}
            rows.append({**about, **arm._asdict()})
            runs.append(Run(SimulatedCluster(subscribed, plan, parameters["placement"], seed), unseen))
    *works, again = measure_in_turns([*runs, runs[0]], parameters["repetitions"])
    rows[0]["differs"] = compare_noise(works[0], again)
    return [{**row, **work.to_dict()} for row, work in zip(rows, works, strict=True)]
