"""Word plans on one core: how long learning takes, what the plans would reach, what routing a post costs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.balance.corpus import Corpus
from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.word_plan_metrics import measure
from tidings.balance.word_registry import LEARNED, PARTITIONERS, fit
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.segment_matcher import no_positions
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.routing.router import Router
from tidings_lab.clock import Times, timed
from tidings_lab.datasets import Posts, Subscriptions
from tidings_lab.fit_match_cost import measure_cost

_BATCH = 10_000
_ROUTING_MATCHERS = 8
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """`learned` posts are what learning is timed with; `compared` are halved: one half to learn, one to measure."""

    learned: int = 1_000_000
    compared: int = 200_000
    timed_matchers: Sequence[int] = (16, 64, 256)
    compared_matchers: Sequence[int] = (8, 16, 32, 64, 128, 256)
    routed: int = 200_000
    subscribed: Sequence[int] = (1_000, 3_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000)


QUICK = Sizes(20_000, 10_000, (16,), (8, 64), 20_000, (500, 2_000, 5_000))


def measure_plans(
    posts: Posts, subscriptions: Subscriptions, repetitions: int, sizes: Sizes, say: Say = print
) -> dict[str, Any]:
    """Every figure of this part; all words count, as if every one were subscribed to: the worst case."""
    seed = subscriptions.seed
    whole = Corpus.of_texts(posts.table.column("text").slice(0, sizes.learned))
    learning = [
        _learned(name, whole, matchers, repetitions, say)
        for name in ("salb", "salb+")
        for matchers in sizes.timed_matchers
    ]
    some = whole.sample(sizes.compared, seed)
    known, unseen = some.select(np.arange(0, some.size, 2)), some.select(np.arange(1, some.size, 2))
    compared = [
        _reached(name, known, unseen, matchers, split, say)
        for matchers in sizes.compared_matchers
        for split in (False, True)
        for name in PARTITIONERS
    ]
    cost = measure_cost(posts.texts.slice(0, sizes.routed), subscriptions, sizes.subscribed, repetitions, say)
    routing = _routing(posts.texts.slice(0, sizes.routed), subscriptions, repetitions, say)
    return {"learning": learning, "compared": compared, "cost": cost, "routing": routing, "seed": seed}


def _learned(name: str, corpus: Corpus, matchers: int, repetitions: int, say: Say) -> dict[str, Any]:
    times = timed(lambda: LEARNED[name](corpus, matchers), repetitions)
    say(f"  {name} learns {corpus.size:,} posts for {matchers} matchers in {times.best:.2f} s")
    size = {"posts": corpus.size, "words": len(corpus.terms), "occurrences": len(corpus.words)}
    return {"algorithm": name, "matchers": matchers, **times.described(), "best_seconds": times.best, **size}


def _reached(name: str, known: Corpus, unseen: Corpus, matchers: int, split: bool, say: Say) -> dict[str, Any]:
    start = time.perf_counter()
    plan = fit(name, known, matchers, split)
    seconds = time.perf_counter() - start
    found = measure(unseen, plan.versions_of(unseen.terms), matchers)
    how = "split" if split else "whole"
    say(f"  {name} for {matchers}, hot words {how}: spread {found.spread:.2f}, throughput {found.throughput:.3f}")
    figures = {one: getattr(found, one) for one in ("spread", "imbalance", "cov", "gini", "throughput")}
    return {"algorithm": name, "matchers": matchers, "split": split, "learning_seconds": seconds, **figures}


def _routing(texts: pa.Array, subscriptions: Subscriptions, repetitions: int, say: Say) -> list[dict[str, Any]]:
    """Nanoseconds a post from its words to the shares of its matchers, with words hashed and with a learned plan."""
    found = []
    for name in ("hash", "salb+"):
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            index = _planned(Path(folder) / "index", name, texts, subscriptions)
            times, spread = _routed(index, texts, repetitions)
        best_ns = 1e9 * times.best / len(texts)
        say(f"  routing, words by {name}: {best_ns:.0f} ns a post, spread {spread:.2f}")
        one = {"algorithm": name, "matchers": _ROUTING_MATCHERS, "posts": len(texts), "spread": spread}
        found.append({**one, **times.described(), "best_ns": best_ns})
    return found


def _planned(folder: Path, name: str, texts: pa.Array, subscriptions: Subscriptions) -> Index:
    def learn(terms: Sequence[bytes], conjunctions: Conjunctions | None = None) -> WordPlan:
        return fit_texts(name, texts, terms, conjunctions, _ROUTING_MATCHERS)

    record = PlanRecord(name, _ROUTING_MATCHERS, subscriptions.seed)
    return create_index(folder, subscriptions.table, record, learn)[0]


def _routed(index: Index, texts: pa.Array, repetitions: int) -> tuple[Times, float]:
    router, receiver = Router(index), index.receiver()
    batches = [receiver.receive(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
    nowhere = no_positions(_BATCH)
    shares = [share for batch in batches for share in router.route(batch, nowhere[: len(batch)]).shares]
    times = timed(lambda: [router.route(batch, nowhere[: len(batch)]) for batch in batches], repetitions)
    return times, sum(len(share.posts) for share in shares) / len(texts)
