"""Matches/s into SQLite and PostgreSQL: batches of posts of 250 bytes with one match each."""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.store import open_store
from tidings.testing.postgres import binaries, postgres
from tidings_lab.progress import Report

POSTS, SUBSCRIPTIONS = 75_000, 100_000


def measure_rows(batches: int, posts: int, report: Report) -> dict[str, Any]:
    """Measure matches/s, each with its post, for every database that is installed."""
    with tempfile.TemporaryDirectory(prefix="tidings-rows-") as folder:
        rates = {"sqlite": _measure(folder, batches, posts)}
    if binaries() is not None:
        with postgres() as url:
            rates["postgresql"] = _measure(url, batches, posts)
    for name, rate in rates.items():
        report(f"  {name}: {rate['matches_per_second']:,.0f} matches/s, each with its post")
    return rates


def _measure(location: str, batches: int, size: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    seconds = []
    with open_store(location) as store:
        store.subscriptions.add_many([(f"storm OR rain{n}",) for n in range(SUBSCRIPTIONS)])
        for batch in range(batches):
            posts, matches = generate_batch(batch, size, rng)
            store.batches.begin("s", batch, 1, 1)
            start = time.perf_counter()
            store.batches.commit("s", batch, posts, matches)
            seconds.append(time.perf_counter() - start)
    return {"posts_per_batch": size, "seconds": seconds, "matches_per_second": size / statistics.median(seconds)}


def generate_batch(batch: int, size: int, rng: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    """Return posts with increasing ids and one match per post."""
    numbers = np.arange(batch * size, (batch + 1) * size)
    words = ["".join(map(chr, row)) for row in rng.integers(97, 123, (500, 240))]
    posts = pa.table(
        {
            "id": pa.array(numbers + 10**17),
            "text": [words[n % 500] + f"{n:010}" for n in numbers],
            "time": pa.array(1_767_225_600_000_000 + numbers * 10_000, pa.timestamp("us", "UTC")),
            "author": [f"user{n % 9_999}" for n in numbers],
        }
    )
    return posts, pa.table({"subscription": rng.integers(1, SUBSCRIPTIONS + 1, size), "post_row": np.arange(size)})
