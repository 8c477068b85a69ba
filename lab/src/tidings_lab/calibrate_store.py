"""Cost of the store of a reflector: CPU per stored match, bytes per match and subscription on disk."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.provision.costs import MeasuredCosts
from tidings.store import open_store
from tidings_lab.bench_store import generate_batch

_MATCHES_PER_ARTICLE = 20  # matches per article in the measured batches


def store_costs(queries: Sequence[str], articles: int, batches: int) -> MeasuredCosts:
    """Measure SQLite. An article is stored once, with its first match."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="tidings-costs-") as name:
        folder = Path(name)
        with open_store(folder):
            pass
        empty = _bytes(folder)
        with open_store(folder) as store:
            store.subscriptions.add_many([(query,) for query in queries])
        subscribed = _bytes(folder)  # the store is closed, so its log is empty
        seconds = []
        with open_store(folder) as store:
            for batch in range(batches):
                posts, _ = generate_batch(batch, articles, rng)
                matches = _matches(articles, len(queries), rng)
                store.batches.begin("s", batch, 1, 1)
                start = time.process_time()
                store.batches.commit("s", batch, posts, matches)
                seconds.append(time.process_time() - start)
        full, texts = _bytes(folder), batches * posts.column("text").nbytes
    hits = articles * _MATCHES_PER_ARTICLE
    how = f"measured: SQLite, batches of {articles:,} articles with {_MATCHES_PER_ARTICLE} matches each"
    return {
        "hit_cpu_s": (min(seconds) / hits, how),
        "hit_bytes": (max(0.0, full - subscribed - texts) / (hits * batches), how),
        "subscription_bytes": ((subscribed - empty) / len(queries), f"measured: SQLite, {len(queries):,} queries"),
    }


def _matches(articles: int, subscriptions: int, rng: np.random.Generator) -> pa.Table:
    """Return matches of different subscriptions for each article."""
    first = rng.integers(0, subscriptions, articles)
    ids = (first[:, None] + np.arange(_MATCHES_PER_ARTICLE) * 7) % subscriptions + 1
    return pa.table({"subscription": ids.ravel(), "post_row": np.repeat(np.arange(articles), _MATCHES_PER_ARTICLE)})


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
