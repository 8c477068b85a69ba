"""Word plans on one core: learning time, estimated throughput, and the cost of routing a post."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.word_plan_metrics import measure_word_plan
from tidings.balance.word_registry import WORD_ALGORITHMS, WORD_PARTITIONERS, fit_word_plan
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.segment_matcher import missing_positions
from tidings.plan.placement.lasp import place_by_load
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.routing.router import Router
from tidings_lab.clock import Times, time_repetitions
from tidings_lab.datasets import Posts, SubscriptionSet
from tidings_lab.fit_match_cost import measure_cost
from tidings_lab.progress import Report, print_line
from tidings_lab.sample_queries import make_conjunctions

_BATCH = 10_000
_ROUTING_MATCHERS = (8, 64)
_PLACING_MATCHERS = (16, 256, 1024)
_PLACING_TERMS = 100_000
_PLACED = 2_000  # subscriptions


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """`learned` posts for learning times; `compared` posts: one half to learn from, the other to evaluate."""

    learned: int = 1_000_000
    compared: int = 200_000
    timed_matchers: Sequence[int] = (16, 64, 256)
    compared_matchers: Sequence[int] = (8, 16, 32, 64, 128, 256)
    routed: int = 200_000
    subscribed: Sequence[int] = (1_000, 3_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000)


QUICK = PlanSizes(20_000, 10_000, (16,), (8, 64), 20_000, (500, 2_000, 5_000))


def measure_plans(
    posts: Posts, subscriptions: SubscriptionSet, repetitions: int, sizes: PlanSizes, report: Report = print_line
) -> dict[str, Any]:
    """Measure everything. All terms are treated as subscribed: the worst case."""
    seed = subscriptions.seed
    whole = Corpus.from_texts(posts.table.column("text").slice(0, sizes.learned))
    learning = [
        _time_learning(name, whole, matchers, repetitions, report)
        for name in ("salb", "salb+")
        for matchers in sizes.timed_matchers
    ]
    sample = whole.sample(sizes.compared, seed)
    known, unseen = sample.select(np.arange(0, sample.size, 2)), sample.select(np.arange(1, sample.size, 2))
    compared = [
        _evaluate(name, known, unseen, matchers, split, report)
        for matchers in sizes.compared_matchers
        for split in (False, True)
        for name in WORD_PARTITIONERS
    ]
    cost = measure_cost(posts.texts.slice(0, sizes.routed), subscriptions, sizes.subscribed, repetitions, report)
    routing = _measure_routing(posts.texts.slice(0, sizes.routed), subscriptions, repetitions, report)
    measured = {"learning": learning, "compared": compared, "cost": cost, "routing": routing, "seed": seed}
    return {**measured, "placing": _measure_placing(repetitions, seed, report)}


def _time_learning(name: str, corpus: Corpus, matchers: int, repetitions: int, report: Report) -> dict[str, Any]:
    times = time_repetitions(lambda: WORD_ALGORITHMS[name](corpus, matchers), repetitions)
    report(f"  {name} learns {corpus.size:,} posts for {matchers} matchers in {times.best:.2f} s")
    size = {"posts": corpus.size, "words": len(corpus.terms), "occurrences": len(corpus.post_terms)}
    return {"algorithm": name, "matchers": matchers, **times.to_dict(), "best_seconds": times.best, **size}


def _evaluate(name: str, known: Corpus, unseen: Corpus, matchers: int, split: bool, report: Report) -> dict[str, Any]:
    start = time.perf_counter()
    plan = fit_word_plan(name, known, matchers, split)
    seconds = time.perf_counter() - start
    found = measure_word_plan(unseen, plan.splits_of(unseen.terms), matchers)
    how = "split" if split else "whole"
    report(f"  {name} for {matchers}, hot terms {how}: spread {found.spread:.2f}, throughput {found.throughput:.3f}")
    metrics = {key: getattr(found, key) for key in ("spread", "imbalance", "cov", "gini", "throughput")}
    return {"algorithm": name, "matchers": matchers, "split": split, "learning_seconds": seconds, **metrics}


def _measure_routing(
    texts: pa.Array, subscriptions: SubscriptionSet, repetitions: int, report: Report
) -> list[dict[str, Any]]:
    """Measure CPU nanoseconds per post from its terms to the batches of its matchers, by hash and by a learned plan."""
    found = []
    for name, matchers in itertools.product(("hash", "salb+"), _ROUTING_MATCHERS):
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            index = _build_index(Path(folder) / "index", name, matchers, texts, subscriptions)
            times, spread = _time_routing(index, texts, repetitions)
        best_ns = 1e9 * times.best_cpu / len(texts)
        report(f"  routing by {name} to {matchers} matchers: {best_ns:.0f} ns per post, spread {spread:.2f}")
        row = {"algorithm": name, "matchers": matchers, "posts": len(texts), "spread": spread}
        found.append({**row, **times.to_dict(), "best_ns": best_ns})
    return found


def _build_index(folder: Path, name: str, matchers: int, texts: pa.Array, subscriptions: SubscriptionSet) -> Index:
    def learn(terms: Sequence[bytes], conjunctions: Conjunctions | None = None) -> WordPlan:
        return fit_texts(name, texts, terms, conjunctions, matchers)

    record = PlanRecord(name, matchers, subscriptions.seed)
    return create_index(folder, subscriptions.table, record, learn)[0]


def _measure_placing(repetitions: int, seed: int, report: Report) -> list[dict[str, Any]]:
    """Measure CPU microseconds to place one more subscription of three words by LASP, and to update its word map."""
    found = []
    for matchers in _PLACING_MATCHERS:
        rng = np.random.default_rng(seed)
        shards = (rng.choice(_PLACING_TERMS, 400, replace=False).astype(np.uint32) + 1 for _ in range(matchers))
        current = ShardTerms.of(enumerate(shards), _PLACING_TERMS, matchers)
        matcher_of = rng.integers(0, matchers, _PLACING_TERMS + 1).astype(np.uint16)
        words = rng.integers(1, _PLACING_TERMS + 1, (_PLACED, 3)).astype(np.uint32)
        placed = [make_conjunctions(row, np.array([0, 3], np.uint64)) for row in words]
        times = time_repetitions(partial(_place_in_turn, placed, matcher_of, matchers, current), 1 + repetitions)
        best_us = 1e6 * times.best_cpu / _PLACED
        report(f"  placing by lasp on {matchers} matchers: {best_us:.0f} µs per subscription")
        found.append({"matchers": matchers, "terms": _PLACING_TERMS, **times.to_dict(), "best_us": best_us})
    return found


def _place_in_turn(
    placed: Sequence[Conjunctions], matcher_of: NDArray[np.uint16], matchers: int, current: ShardTerms
) -> None:
    for conjunction in placed:
        (matcher,) = place_by_load(conjunction, matcher_of, matchers, 0, lambda: current).tolist()
        current.add(matcher, conjunction.terms)


def _time_routing(index: Index, texts: pa.Array, repetitions: int) -> tuple[Times, float]:
    router, receiver = Router(index), index.analyzer()
    batches = [receiver.analyze(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
    nowhere = missing_positions(_BATCH)
    shares = [share for batch in batches for share in router.route(batch, nowhere[: len(batch)]).batches]
    times = time_repetitions(lambda: [router.route(batch, nowhere[: len(batch)]) for batch in batches], repetitions)
    return times, sum(len(share.posts) for share in shares) / len(texts)
