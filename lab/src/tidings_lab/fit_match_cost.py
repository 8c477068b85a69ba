"""The cost of matching a post as a line over the number of distinct words a matcher holds (S³-TM, figure 4.1)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.index.builder import create_index
from tidings.matching.segment_matcher import FlatMatcher, no_positions
from tidings_lab.clock import timed
from tidings_lab.datasets import Subscriptions

_BATCH = 10_000


def measure_cost(
    texts: pa.Array, subscriptions: Subscriptions, sizes: Sequence[int], repetitions: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Nanoseconds a post of the real matcher, with more and more of the subscriptions, and the line through them."""
    points = [_point(texts, subscriptions, size, repetitions, say) for size in sizes if size <= len(subscriptions)]
    words, cost = (np.array([point[name] for point in points]) for name in ("words", "best_ns"))
    each, base = np.polyfit(words, cost, 1)
    residual = cost - (base + each * words)
    explained = 1 - float((residual**2).sum() / ((cost - cost.mean()) ** 2).sum())
    say(f"  the cost of a post: {base:.0f} ns and {each:.4f} ns for every word, r² {explained:.3f}")
    return {"points": points, "base_ns": float(base), "each_ns": float(each), "r2": explained}


def _point(
    texts: pa.Array, subscriptions: Subscriptions, size: int, repetitions: int, say: Callable[[str], None]
) -> dict[str, Any]:
    rows = np.random.default_rng(subscriptions.seed).permutation(len(subscriptions))[:size]
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        index, _ = create_index(Path(folder) / "index", subscriptions.table.take(pa.array(np.sort(rows))))
        receiver = index.receiver()
        batches = [receiver.receive(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
        matcher, nowhere = FlatMatcher(index.shard(0)[0].segment, index.manifest.terms), no_positions(_BATCH)
        times = timed(lambda: [matcher.match(batch, nowhere[: len(batch)]) for batch in batches], repetitions)
    best = 1e9 * times.best_cpu / len(texts)
    say(f"  {size:,} subscriptions, {index.manifest.terms:,} distinct words: {best:.0f} ns a post")
    return {"subscriptions": size, "words": index.manifest.terms, "best_ns": best, **times.described()}
