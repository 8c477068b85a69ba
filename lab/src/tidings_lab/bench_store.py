"""Rows/s into the store: batches of posts of 250 bytes with one match each, into SQLite and PostgreSQL."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.store import open_store
from tidings_lab.postgres import binaries, postgres

POSTS, SUBSCRIPTIONS = 75_000, 100_000


def measure_rows(batches: int, posts: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Matches with their posts, a second, for each database that is there."""
    with tempfile.TemporaryDirectory(prefix="tidings-rows-") as folder:
        found = {"sqlite": _measure(folder, batches, posts)}
    if binaries() is not None:
        with postgres() as url:
            found["postgresql"] = _measure(url, batches, posts)
    for name, one in found.items():
        say(f"  {name}: {one['matches_per_second']:,.0f} matches/s, each with its post")
    return found


def _measure(where: str, batches: int, size: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    seconds = []
    with open_store(where) as store:
        store.subscribe_many([(f"storm OR rain{n}",) for n in range(SUBSCRIPTIONS)])
        for batch in range(batches):
            posts, matches = made(batch, size, rng)
            store.begin("s", batch, 1, 1)
            start = time.perf_counter()
            store.commit("s", batch, posts, matches)
            seconds.append(time.perf_counter() - start)
    return {"posts_a_batch": size, "seconds": seconds, "matches_per_second": size / statistics.median(seconds)}


def made(batch: int, size: int, rng: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    """Posts with growing ids, and one match each."""
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
