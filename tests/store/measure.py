"""How fast a store takes batches: `python -m tests.store.measure DIR|URL [BATCHES] [random]`."""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

from tidings.store import open_store

POSTS, SUBSCRIPTIONS = 75_000, 100_000


def made(batch: int, rng: np.random.Generator, scattered: bool) -> tuple[pa.Table, pa.Table]:
    """Posts of 250 bytes and one match each; ids grow, or are scattered as hashes are."""
    numbers = np.arange(batch * POSTS, (batch + 1) * POSTS)
    ids = pa.array([f"{n:032x}" for n in rng.integers(0, 2**62, POSTS)]) if scattered else pa.array(numbers + 10**17)
    words = ["".join(map(chr, row)) for row in rng.integers(97, 123, (500, 240))]
    posts = pa.table(
        {
            "id": ids,
            "text": [words[n % 500] + f"{n:010}" for n in numbers],
            "time": pa.array(1_767_225_600_000_000 + numbers * 10_000, pa.timestamp("us", "UTC")),
            "author": [f"user{n % 9_999}" for n in numbers],
            "lang": ["en"] * POSTS,
            "lat": pa.array([1.5 if n % 5 == 0 else None for n in numbers]),
            "lon": pa.array([2.5 if n % 5 == 0 else None for n in numbers]),
        }
    )
    hit = {"subscription": rng.integers(1, SUBSCRIPTIONS + 1, POSTS), "post_row": np.arange(POSTS)}
    return posts, pa.table(hit)


def main(where: str, batches: int = 6, scattered: bool = False) -> None:
    rng = np.random.default_rng(1)
    with open_store(where) as store:
        store.subscribe_many([(f"storm OR rain{n}",) for n in range(SUBSCRIPTIONS)])
        took, busy = [], []
        for batch in range(batches):
            posts, matches = made(batch, rng, scattered)
            store.begin("s", batch, 1, 1)
            start, cpu = time.perf_counter(), time.process_time()
            stored = store.commit("s", batch, posts, matches)
            took.append((time.perf_counter() - start) / stored.matches * 1e6)
            busy.append((time.process_time() - cpu) / stored.matches * 1e6)
        print("us a match with its post:", " ".join(f"{one:.2f}" for one in took))
        print(f"median {np.median(took):.2f}, of which this process was busy {np.median(busy):.2f}")
        store.begin("t", 0, 1, 1)
        start = time.perf_counter()
        store.commit("t", 0, posts, matches)
        print("us a match that is known:", round((time.perf_counter() - start) / POSTS * 1e6, 2))
        print(store.sizes())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6, "random" in sys.argv)
