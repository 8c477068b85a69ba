"""Word plans on one core: learning time, estimated throughput, and the cost of routing a post."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.balance.corpus import Corpus
from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.word_plan_metrics import measure_word_plan
from tidings.balance.word_registry import WORD_ALGORITHMS, WORD_PARTITIONERS, fit_word_plan
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.segment_matcher import missing_positions
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.routing.router import Router
from tidings_lab.clock import Times, time_repetitions
from tidings_lab.datasets import Posts, SubscriptionSet
from tidings_lab.fit_match_cost import measure_cost
from tidings_lab.progress import Report, print_line

_BATCH = 10_000
_ROUTING_MATCHERS = 8


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
    return {"learning": learning, "compared": compared, "cost": cost, "routing": routing, "seed": seed}


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
    """Measure nanoseconds per post from its terms to the batches of its matchers, by hash and by a learned plan."""
    found = []
    for name in ("hash", "salb+"):
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            index = _build_index(Path(folder) / "index", name, texts, subscriptions)
            times, spread = _time_routing(index, texts, repetitions)
        best_ns = 1e9 * times.best / len(texts)
        report(f"  routing by {name}: {best_ns:.0f} ns per post, spread {spread:.2f}")
        row = {"algorithm": name, "matchers": _ROUTING_MATCHERS, "posts": len(texts), "spread": spread}
        found.append({**row, **times.to_dict(), "best_ns": best_ns})
    return found


def _build_index(folder: Path, name: str, texts: pa.Array, subscriptions: SubscriptionSet) -> Index:
    def learn(terms: Sequence[bytes], conjunctions: Conjunctions | None = None) -> WordPlan:
        return fit_texts(name, texts, terms, conjunctions, _ROUTING_MATCHERS)

    record = PlanRecord(name, _ROUTING_MATCHERS, subscriptions.seed)
    return create_index(folder, subscriptions.table, record, learn)[0]


def _time_routing(index: Index, texts: pa.Array, repetitions: int) -> tuple[Times, float]:
    router, receiver = Router(index), index.analyzer()
    batches = [receiver.analyze(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
    nowhere = missing_positions(_BATCH)
    shares = [share for batch in batches for share in router.route(batch, nowhere[: len(batch)]).batches]
    times = time_repetitions(lambda: [router.route(batch, nowhere[: len(batch)]) for batch in batches], repetitions)
    return times, sum(len(share.posts) for share in shares) / len(texts)
