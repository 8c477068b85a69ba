"""Keywords and regions end to end: posts and updates of Q1 through the pipeline, compared with text-only subscriptions.

Spark writes the matches in three forms: spill files with one row per matched post and the list of its subscriptions,
synced to disk as by a stream; the same rows to the noop sink; one row per match to the noop sink. PS²Stream has one
update per five posts: subscriptions are added, and removed at the end of their lifetime. They are applied to the index
in batches like in a stream. The result counts the time of both.
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
from tidings.config import MAX_POSTS_PER_BATCH
from tidings.index.builder import apply_changes, create_index
from tidings.index.reader import Index
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings_lab.datasets import Posts, benchmark_subscriptions
from tidings_lab.inputs import FILES
from tidings_lab.located_posts import load_located
from tidings_lab.progress import Report, print_line
from tidings_lab.simulated_spatial_matchers import renumber
from tidings_lab.spatial_workload import Tweets, departures, draw_subscriptions

_WARM_UPS = 1  # turns; in the first, JIT compilation of the JVM takes a fifth of the time


class _SpatialInput(NamedTuple):
    """Posts with positions, Q1, later additions to Q1, and the same number of subscriptions without regions."""

    posts: pa.Table
    q1: pa.Table
    new: pa.Table
    text: pa.Table


def measure_space(
    folder: Path, subscriptions: int, posts: int | None, repetitions: int, seed: int, report: Report = print_line
) -> dict[str, Any]:
    """Time Q1 and the same number of subscriptions without regions on the same posts, in turns."""
    drawn = _draw_input(subscriptions, posts, seed, report)
    count = len(drawn.posts)
    _write_files(folder / "posts", drawn.posts)
    start = time.perf_counter()
    index, _ = create_index(folder / "q1", drawn.q1)
    seconds = time.perf_counter() - start
    report(f"  Q1 compiled in {seconds:.1f} s, {index.size_bytes / subscriptions:.0f} bytes each")
    updates, update_seconds = _apply_updates(index, drawn.new, count, seed)
    report(f"  {updates:,} updates in {update_seconds:.1f} s")
    indexes = {"Q1": index, "text": create_index(folder / "t", drawn.text)[0]}
    matches = {name: _count(folder / "posts", one) for name, one in indexes.items()}  # also a warm-up
    actions = {
        form: action for name, one in indexes.items() for form, action in output_actions(name, folder, one).items()
    }
    times = _time_in_turns(actions, repetitions, count, report)
    return {
        "posts": count,
        "subscriptions": subscriptions,
        "updates": updates,
        "update_seconds": update_seconds,
        "compiling_seconds": seconds,
        "bytes_per_subscription": index.size_bytes / subscriptions,
        "matches_per_post": {name: found / count for name, found in matches.items()},
        "seconds": times,
        **_compute_rates("", times["Q1, rows"], times["text, rows"], count, updates, update_seconds),
        **_compute_rates("_in_lists", times["Q1, lists"], times["text, lists"], count, updates, update_seconds),
        **_compute_rates("_in_files", times["Q1, files"], times["text, files"], count, updates, update_seconds),
    }


def _draw_input(subscriptions: int, posts: int | None, seed: int, report: Report) -> _SpatialInput:
    table = load_located(posts, seed)
    table = table.add_column(0, "id", pa.array(np.arange(len(table))))
    report(f"drawing {subscriptions:,} subscriptions of Q1 and without regions for {len(table):,} posts")
    tweets = Tweets.of(table.slice(0, 100_000))
    new = draw_subscriptions("Q1", max(1, len(table) // (2 * POSTS_PER_UPDATE)), tweets, seed + 1)
    text_posts = Posts(table.select(["id", "text"]), "geo tweets")
    return _SpatialInput(
        table,
        draw_subscriptions("Q1", subscriptions, tweets, seed),
        renumber(new, subscriptions),
        benchmark_subscriptions(subscriptions, seed, text_posts).table,
    )


def _time_in_turns(
    actions: dict[str, Callable[[], None]], repetitions: int, posts: int, report: Report
) -> dict[str, list[float]]:
    """Return the seconds of every action, timed in turns after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(-_WARM_UPS, repetitions):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
        rates = "; ".join(f"{name} {posts / taken[-1]:,.0f}" for name, taken in times.items())
        report(f"  {'warm-up' if number < 0 else f'repetition {number + 1}'}, posts/s: {rates}")
    return {name: taken[_WARM_UPS:] for name, taken in times.items()}


def _compute_rates(
    form: str, q1: list[float], text: list[float], posts: int, updates: int, update_seconds: float
) -> dict[str, float]:
    """Return tuples/s and posts/s of Q1, posts/s without regions, and the ratio of the first and the last."""
    tuples = [(posts + updates) / (taken + update_seconds) for taken in q1]
    text_posts = [posts / taken for taken in text]
    return {
        f"tuples_per_second{form}": statistics.median(tuples),
        f"posts_per_second{form}": statistics.median(posts / taken for taken in q1),
        f"text_posts_per_second{form}": statistics.median(text_posts),
        f"ratio_to_text{form}": statistics.median(one / other for one, other in zip(tuples, text_posts, strict=True)),
    }


def _apply_updates(index: Index, new: pa.Table, posts: int, seed: int) -> tuple[int, float]:
    """Apply one batch of updates per batch of posts. Returns the number of updates and the seconds."""
    batches = max(1, -(-posts // MAX_POSTS_PER_BATCH))
    leaves = departures(index.manifest.subscriptions, len(new), seed)
    count, start = 0, time.perf_counter()
    for rows in np.array_split(np.arange(len(new)), batches):
        removed = np.flatnonzero((leaves >= rows[0]) & (leaves <= rows[-1]))
        index, _ = apply_changes(index, new.take(pa.array(rows)), pa.array(removed))
        count += len(rows) + len(removed)
    return count, time.perf_counter() - start


def _count(posts: Path, index: Index) -> int:
    from tidings.spark.index_shipping import shared_path_ref
    from tidings.spark.pipeline import match_posts

    return int(match_posts(tidings.session().read.parquet(str(posts)), index, shared_path_ref(index)).count())


def output_actions(name: str, folder: Path, index: Index) -> dict[str, Callable[[], None]]:
    """Return an action per output form that matches the posts of a folder."""
    from tidings.spark import post_columns as receive
    from tidings.spark.index_shipping import shared_path_ref
    from tidings.spark.pipeline import match_posts, matched_posts
    from tidings.stream.commit_queue import collect_matches, spill

    posts, ref, files = tidings.session().read.parquet(str(folder / "posts")), shared_path_ref(index), folder / "kept"
    rows, whole = match_posts(posts, index, ref), receive.select_all_fields(posts)
    lists, written = matched_posts(whole, index, ref), matched_posts(whole, index, ref, folder=files)
    return {
        f"{name}, files": lambda: spill(collect_matches(written, files), files),
        f"{name}, lists": lambda: lists.write.format("noop").mode("overwrite").save(),
        f"{name}, rows": lambda: rows.write.format("noop").mode("overwrite").save(),
    }


def _write_files(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    size = max(1, -(-len(table) // FILES))
    for number, start in enumerate(range(0, len(table), size)):
        pq.write_table(table.slice(start, size), folder / f"part-{number:05d}.parquet", compression="snappy")
