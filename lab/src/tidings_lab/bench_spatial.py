"""Keywords and regions end to end: Q1 through the pipeline, posts and updates together, beside the text-only pipeline.

Posts go through Spark as the spine's do, in three forms: into files of the posts that are wanted, each with the list of
who wants it, which is how a stream keeps what a large batch found, safe on the disk; into the same rows in Spark; and
into a row for each match. The updates that belong to them, one for five posts,
are brought into the index as the stream brings them, a batch at a time: subscriptions come, and leave when their life
ends. Both take turns in life, so both times count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidings
from tidings.config import MAX_POSTS_A_BATCH
from tidings.index.builder import change_index, create_index
from tidings.index.merge_policy import fold_index
from tidings.index.reader import Index
from tidings.plan.load_model import OBJECTS_AN_UPDATE
from tidings_lab.datasets import Posts, benchmark_subscriptions
from tidings_lab.inputs import FILES
from tidings_lab.located_posts import load_located
from tidings_lab.simulated_spatial_matchers import renumbered
from tidings_lab.spatial_workload import Tweets, departures, draw_subscriptions

Say = Callable[[str], None]
_WARM_UPS = 1  # turns: in the first the JVM's compiler takes a fifth of the time


class _Drawn(NamedTuple):
    """What is matched with what: posts of places, Q1 and what comes to it, and as many subscriptions of words only."""

    posts: pa.Table
    q1: pa.Table
    new: pa.Table
    text: pa.Table


def measure_space(
    folder: Path, subscriptions: int, posts: int | None, repetitions: int, seed: int, say: Say = print
) -> dict[str, Any]:
    """Q1 and as many subscriptions of words only, on the same posts, in turns."""
    drawn = _drawn(subscriptions, posts, seed, say)
    count = len(drawn.posts)
    _write(folder / "posts", drawn.posts)
    start = time.perf_counter()
    index, _ = create_index(folder / "q1", drawn.q1)
    seconds = time.perf_counter() - start
    say(f"  Q1 compiled in {seconds:.1f} s, {index.size_bytes / subscriptions:.0f} bytes each")
    updates, update_seconds = _updated(index, drawn.new, count, seed)
    say(f"  {updates:,} updates in {update_seconds:.1f} s")
    indexes = {"Q1": index, "text": create_index(folder / "t", drawn.text)[0]}
    matches = {name: _count(folder / "posts", one) for name, one in indexes.items()}  # also warms up
    ways = {form: way for name, one in indexes.items() for form, way in ways_of(name, folder, one).items()}
    times = _timed(ways, repetitions, count, say)
    return {
        "posts": count,
        "subscriptions": subscriptions,
        "updates": updates,
        "update_seconds": update_seconds,
        "compiling_seconds": seconds,
        "bytes_a_subscription": index.size_bytes / subscriptions,
        "matches_a_post": {name: found / count for name, found in matches.items()},
        "seconds": times,
        **_rates("", times["Q1, rows"], times["text, rows"], count, updates, update_seconds),
        **_rates("_in_lists", times["Q1, lists"], times["text, lists"], count, updates, update_seconds),
        **_rates("_in_files", times["Q1, files"], times["text, files"], count, updates, update_seconds),
    }


def _drawn(subscriptions: int, posts: int | None, seed: int, say: Say) -> _Drawn:
    table = load_located(posts, seed)
    table = table.add_column(0, "id", pa.array(np.arange(len(table))))
    say(f"drawing {subscriptions:,} subscriptions of Q1 and of words only for {len(table):,} posts")
    tweets = Tweets.of(table.slice(0, 100_000))
    new = draw_subscriptions("Q1", max(1, len(table) // (2 * OBJECTS_AN_UPDATE)), tweets, seed + 1)
    text_posts = Posts(table.select(["id", "text"]), "geo tweets")
    return _Drawn(
        table,
        draw_subscriptions("Q1", subscriptions, tweets, seed),
        renumbered(new, subscriptions),
        benchmark_subscriptions(subscriptions, seed, text_posts).table,
    )


def _timed(ways: dict[str, Callable[[], None]], repetitions: int, posts: int, say: Say) -> dict[str, list[float]]:
    """The seconds of every way, in turns; the first turns are a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-_WARM_UPS, repetitions):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
        rates = "; ".join(f"{name} {posts / taken[-1]:,.0f}" for name, taken in times.items())
        say(f"  {'warm-up' if number < 0 else f'repetition {number + 1}'}, posts/s: {rates}")
    return {name: taken[_WARM_UPS:] for name, taken in times.items()}


def _rates(
    form: str, own: list[float], text: list[float], posts: int, updates: int, update_seconds: float
) -> dict[str, float]:
    """Tuples and posts a second with Q1, posts a second with words only, and the ratio of the first and the last."""
    tuples = [(posts + updates) / (taken + update_seconds) for taken in own]
    text_posts = [posts / taken for taken in text]
    return {
        f"tuples_per_second{form}": statistics.median(tuples),
        f"posts_per_second{form}": statistics.median(posts / taken for taken in own),
        f"text_posts_per_second{form}": statistics.median(text_posts),
        f"ratio_to_text{form}": statistics.median(one / other for one, other in zip(tuples, text_posts, strict=True)),
    }


def _updated(index: Index, new: pa.Table, posts: int, seed: int) -> tuple[int, float]:
    """How many updates belong to the posts, and the seconds they take: a batch of them for every batch of posts."""
    batches = max(1, -(-posts // MAX_POSTS_A_BATCH))
    leaves = departures(index.manifest.subscriptions, len(new), seed)
    count, start = 0, time.perf_counter()
    for some in np.array_split(np.arange(len(new)), batches):
        gone = np.flatnonzero((leaves >= some[0]) & (leaves <= some[-1]))
        index = fold_index(change_index(index, new.take(pa.array(some)), pa.array(gone))[0])
        count += len(some) + len(gone)
    return count, time.perf_counter() - start


def _count(posts: Path, index: Index) -> int:
    from tidings.spark.index_shipping import reference
    from tidings.spark.pipeline import match_posts

    return int(match_posts(tidings.session().read.parquet(str(posts)), index, reference(index)).count())


def ways_of(name: str, folder: Path, index: Index) -> dict[str, Callable[[], None]]:
    """Each form of matching the posts of a folder, as something to be called."""
    from tidings.spark import post_columns as receive
    from tidings.spark.index_shipping import reference
    from tidings.spark.pipeline import match_posts, wanted_posts
    from tidings.stream.spill import gathered, keep

    posts, ref, files = tidings.session().read.parquet(str(folder / "posts")), reference(index), folder / "kept"
    rows, whole = match_posts(posts, index, ref), receive.whole(posts)
    lists, written = wanted_posts(whole, index, ref), wanted_posts(whole, index, ref, folder=files)
    return {
        f"{name}, files": lambda: keep(gathered(written, files), files),
        f"{name}, lists": lambda: lists.write.format("noop").mode("overwrite").save(),
        f"{name}, rows": lambda: rows.write.format("noop").mode("overwrite").save(),
    }


def _write(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    size = max(1, -(-len(table) // FILES))
    for number, start in enumerate(range(0, len(table), size)):
        pq.write_table(table.slice(start, size), folder / f"part-{number:05d}.parquet", compression="snappy")
