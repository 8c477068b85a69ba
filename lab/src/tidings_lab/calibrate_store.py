"""What a reflector's store costs: a hit put into its queue, and what hits and subscriptions take on disk."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.provision.costs import Measured
from tidings.store import open_store
from tidings_lab.bench_store import made

_HITS = 20  # of an article, in the measured batches


def store_costs(queries: Sequence[str], articles: int, batches: int) -> Measured:
    """SQLite; an article is stored once with the first of its hits, so the more hits the less it weighs."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="tidings-costs-") as name:
        folder = Path(name)
        with open_store(folder):
            pass
        empty = _bytes(folder)
        with open_store(folder) as store:
            store.subscribe_many([(query,) for query in queries])
        subscribed = _bytes(folder)  # of a store that is closed: its log is empty
        seconds = []
        with open_store(folder) as store:
            for batch in range(batches):
                posts, _ = made(batch, articles, rng)
                matches = _matches(articles, len(queries), rng)
                store.begin("s", batch, 1, 1)
                start = time.process_time()
                store.commit("s", batch, posts, matches)
                seconds.append(time.process_time() - start)
        full, texts = _bytes(folder), batches * posts.column("text").nbytes
    hits = articles * _HITS
    how = f"measured: SQLite, batches of {articles:,} articles with {_HITS} hits each"
    return {
        "hit_cpu_s": (min(seconds) / hits, how),
        "hit_bytes": (max(0.0, full - subscribed - texts) / (hits * batches), how),
        "subscription_bytes": ((subscribed - empty) / len(queries), f"measured: SQLite, {len(queries):,} queries"),
    }


def _matches(articles: int, subscriptions: int, rng: np.random.Generator) -> pa.Table:
    """Different subscriptions for each article."""
    first = rng.integers(0, subscriptions, articles)
    wanted = (first[:, None] + np.arange(_HITS) * 7) % subscriptions + 1
    return pa.table({"subscription": wanted.ravel(), "post_row": np.repeat(np.arange(articles), _HITS)})


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
