"""Keywords and regions end to end: Q1 through the pipeline, posts and updates together, beside the text-only pipeline.

Posts go through Spark as the spine's do. The updates that belong to them, one for five posts, are brought into the
index as the stream brings them, a batch at a time; both take turns in life, so both times count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidings
from tidings.index.fold import fold_index
from tidings.index.index import Index
from tidings.index.publish import change_index, create_index
from tidings.lab.datasets import Posts, benchmark_subscriptions
from tidings.lab.inputs import FILES
from tidings.lab.located import load_located
from tidings.lab.space_fleet import renumbered
from tidings.lab.spatial import Tweets, draw_subscriptions
from tidings.partition.space.load import OBJECTS_AN_UPDATE

_POSTS_A_BATCH = 50_000


def measure_space(
    folder: Path, subscriptions: int, posts: int | None, repetitions: int, seed: int, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Q1 and as many subscriptions of words only, on the same posts, in turns."""
    table = load_located(posts, seed)
    table = table.add_column(0, "id", pa.array(np.arange(len(table))))
    _write(folder / "posts", table)
    say(f"drawing {subscriptions:,} subscriptions of Q1 and of words only for {len(table):,} posts")
    tweets = Tweets.of(table.slice(0, 100_000))
    q1 = draw_subscriptions("Q1", subscriptions, tweets, seed)
    text_posts = Posts(table.select(["id", "text"]), "geo tweets")
    text = benchmark_subscriptions(subscriptions, seed, text_posts).table
    start = time.perf_counter()
    index, _ = create_index(folder / "q1", q1)
    seconds = time.perf_counter() - start
    say(f"  Q1 compiled in {seconds:.1f} s, {index.size_bytes / subscriptions:.0f} bytes each")
    new = draw_subscriptions("Q1", max(1, len(table) // (2 * OBJECTS_AN_UPDATE)), tweets, seed + 1)
    updates, update_seconds = _updated(index, renumbered(new, subscriptions), len(table))
    say(f"  {updates:,} updates in {update_seconds:.1f} s")
    frames = {
        "Q1": _frame(folder / "posts", index),
        "text": _frame(folder / "posts", create_index(folder / "t", text)[0]),
    }
    matches = {name: int(frame.count()) for name, frame in frames.items()}  # also warms up
    times: dict[str, list[float]] = {name: [] for name in frames}
    for number in range(repetitions):
        for name, frame in frames.items():
            start = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            times[name].append(time.perf_counter() - start)
        rates = ", ".join(f"{name} {len(table) / taken[-1]:,.0f}" for name, taken in times.items())
        say(f"  repetition {number + 1}, posts/s: {rates}")
    tuples = [(len(table) + updates) / (taken + update_seconds) for taken in times["Q1"]]
    text_tuples = [len(table) / taken for taken in times["text"]]
    return {
        "posts": len(table),
        "subscriptions": subscriptions,
        "updates": updates,
        "update_seconds": update_seconds,
        "compiling_seconds": seconds,
        "bytes_a_subscription": index.size_bytes / subscriptions,
        "matches_a_post": {name: count / len(table) for name, count in matches.items()},
        "seconds": times,
        "tuples_per_second": statistics.median(tuples),
        "posts_per_second": statistics.median(len(table) / taken for taken in times["Q1"]),
        "text_posts_per_second": statistics.median(text_tuples),
        "ratio_to_text": statistics.median(one / other for one, other in zip(tuples, text_tuples, strict=True)),
    }


def _updated(index: Index, new: pa.Table, posts: int) -> tuple[int, float]:
    """How many updates belong to the posts, and the seconds they take: a batch of them for every batch of posts."""
    batches = max(1, posts // _POSTS_A_BATCH)
    rng = np.random.default_rng(1)
    count, start = 0, time.perf_counter()
    for some in np.array_split(np.arange(len(new)), batches):
        gone = pa.array(rng.choice(index.manifest.subscriptions, len(some), replace=False))
        index = fold_index(change_index(index, new.take(pa.array(some)), gone)[0])
        count += 2 * len(some)
    return count, time.perf_counter() - start


def _frame(posts: Path, index: Index) -> Any:
    from tidings.spark.job import match_posts
    from tidings.spark.ship import reference

    spark = tidings.session()
    return match_posts(spark.read.parquet(str(posts)), index, reference(index))


def _write(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    size = max(1, -(-len(table) // FILES))
    for number, start in enumerate(range(0, len(table), size)):
        pq.write_table(table.slice(start, size), folder / f"part-{number:05d}.parquet", compression="snappy")
