"""Fit the cost of matching a post as a line over the distinct terms of a matcher (S³-TM, figure 4.1)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.index.builder import create_index
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings_lab.clock import time_repetitions
from tidings_lab.datasets import SubscriptionSet
from tidings_lab.progress import Report

_BATCH = 10_000


def measure_cost(
    texts: pa.Array,
    subscriptions: SubscriptionSet,
    sizes: Sequence[int],
    repetitions: int,
    report: Report,
) -> dict[str, Any]:
    """Measure nanoseconds per post for growing numbers of subscriptions and fit a line."""
    points = [
        _measure_point(texts, subscriptions, size, repetitions, report) for size in sizes if size <= len(subscriptions)
    ]
    terms, cost = (np.array([point[name] for point in points]) for name in ("words", "best_ns"))
    per_term, base = np.polyfit(terms, cost, 1)
    residual = cost - (base + per_term * terms)
    explained = 1 - float((residual**2).sum() / ((cost - cost.mean()) ** 2).sum())
    report(f"  cost of a post: {base:.0f} ns + {per_term:.4f} ns per term, r² {explained:.3f}")
    return {"points": points, "base_ns": float(base), "per_term_ns": float(per_term), "r2": explained}


def _measure_point(
    texts: pa.Array, subscriptions: SubscriptionSet, size: int, repetitions: int, report: Report
) -> dict[str, Any]:
    rows = np.random.default_rng(subscriptions.seed).permutation(len(subscriptions))[:size]
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        index, _ = create_index(Path(folder) / "index", subscriptions.table.take(pa.array(np.sort(rows))))
        receiver = index.analyzer()
        batches = [receiver.analyze(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
        matcher, nowhere = (
            SegmentMatcher(index.open_shard(0)[0].segment, index.manifest.terms),
            missing_positions(_BATCH),
        )
        times = time_repetitions(
            lambda: [matcher.match(batch, nowhere[: len(batch)]) for batch in batches], repetitions
        )
    best = 1e9 * times.best_cpu / len(texts)
    report(f"  {size:,} subscriptions, {index.manifest.terms:,} distinct terms: {best:.0f} ns per post")
    return {"subscriptions": size, "words": index.manifest.terms, "best_ns": best, **times.to_dict()}
