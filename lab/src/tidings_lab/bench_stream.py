"""Stream benchmark: sustained rate into SQLite and batch rate, latency at given rates, delay of a new subscription.

Everything runs in one session, so that all measurements share a warm JVM. The subscriptions are long enough for about
one match per post.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidings
from tidings.config import MAX_POSTS_PER_BATCH
from tidings.store import Store, open_store
from tidings_lab import stages
from tidings_lab.bench_store import measure_rows
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.feeder import MARKER, Feeder
from tidings_lab.progress import Report
from tidings_lab.sample_queries import draw_queries

QUERY_TERMS = (3, 6)  # minimum and maximum per subscription: a tweet matches 0.9 of 100,000
RATES = (1_000, 10_000)
_FILES = 40  # with all posts once
_COPIES = 4  # of all posts, with other ids: the last batch, whose commit overlaps with nothing, must not dominate
_WARM_UPS = 2  # turns of many small batches: the JVM needs hundreds of them to compile Spark's planner
_MEASURED_TURNS = 3
_FILE_INTERVAL_S = 0.1


def measure_stream(posts: Posts, subscriptions: int, seed: int, quick: bool, report: Report) -> dict[str, Any]:
    """Run all measurements of the stream."""
    rng = np.random.default_rng([seed, 3])
    queries = draw_queries(sample_texts(posts, rng), subscriptions, rng, *QUERY_TERMS).to_pylist()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-stream-") as name:
        folder = Path(name)
        measured: dict[str, Any] = {"sustained": _measure_sustained(folder / "sustained", posts, queries, report)}
        seconds = 5 if quick else 30
        measured["latency"] = [
            measure_latency(folder / f"rate{rate}", posts, queries, rate, seconds, report) for rate in RATES
        ]
    measured["rows"] = measure_rows(3 if quick else 8, 10_000 if quick else 75_000, report)
    return measured


def _measure_sustained(folder: Path, posts: Posts, queries: list[str], report: Report) -> dict[str, Any]:
    """Measure posts/s of floor, batch and stream (into SQLite) on the same files; the first turns warm up."""
    source = folder / "posts"
    count = _write_files(posts, source)
    spark = tidings.session()
    source_posts = spark.read.parquet(str(source)).select("id", "text")
    floor = source_posts.mapInArrow(stages.identity, "id bigint, text string")
    table = pa.table({"id": np.arange(1, len(queries) + 1), "query": queries})
    from tidings.spark.api import prepare_match

    batch = prepare_match(source_posts, table, plan="replicated").matches
    rates: dict[str, list[float]] = {"floor": [], "batch": [], "stream": []}
    shares, matches = [], 0
    for turn in range(_WARM_UPS + _MEASURED_TURNS):
        for name, frame in (("floor", floor), ("batch", batch)):
            start = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            rates[name].append(count / (time.perf_counter() - start))
        with _store(folder / f"state{turn}", queries) as store:
            posts_per_batch = 1 if turn < _WARM_UPS else MAX_POSTS_PER_BATCH  # at least one file
            seconds, progress = _time_stream(folder / f"state{turn}", store, source, posts_per_batch)
            rates["stream"].append(count / seconds)
            shares.append(_bookkeeping_share(progress))
            matches = store.sizes().matches
        report("  " + ", ".join(f"{name} {rate[-1]:,.0f}" for name, rate in rates.items()) + " posts/s")
    warm = (rates[name][_WARM_UPS:] for name in ("stream", "batch"))
    ratios = [stream / batch for stream, batch in zip(*warm, strict=True)]
    return {
        "posts": count,
        "subscriptions": len(queries),
        "matches_per_post": matches / count,
        "posts_per_second": rates,
        "ratio_to_batch": float(np.median(ratios)),
        "bookkeeping_share": shares[-1],
    }


def _write_files(posts: Posts, source: Path) -> int:
    """Write several copies of the posts as files. Returns the number of posts."""
    source.mkdir(parents=True)
    size = -(-len(posts) // _FILES)
    for number in range(_FILES * _COPIES):
        part = posts.table.slice(number % _FILES * size, size).select(["text"])
        ids = pa.array(np.arange(len(part), dtype=np.int64) + number * size)
        pq.write_table(part.add_column(0, "id", ids), source / f"{number:03}.parquet")
    return len(posts) * _COPIES


def _time_stream(folder: Path, store: Store, source: Path, posts_per_batch: int) -> tuple[float, list[Any]]:
    """Run a stream over all files. Returns the seconds of its batches and Spark's progress reports."""
    with _running_stream(folder, store, source, posts_per_batch, once=True) as (query, runner):
        query.awaitTermination()
        ended = time.perf_counter()
        runner.commits.wait()
        last_s = time.perf_counter() - ended
        progress = [batch for batch in query.recentProgress if batch.numInputRows]
    return sum(batch.durationMs["triggerExecution"] for batch in progress) / 1000 + last_s, progress


@contextmanager
def _store(folder: Path, queries: list[str]) -> Iterator[Store]:
    folder.mkdir(parents=True)
    with open_store(folder) as store:
        store.subscriptions.add_many([(query,) for query in queries])
        yield store


@contextmanager
def _running_stream(
    folder: Path, store: Store, source: Path, posts_per_batch: int = MAX_POSTS_PER_BATCH, once: bool = False
) -> Iterator[tuple[Any, Any]]:
    """A stream in this session and its batch runner, assembled like `tidings run`."""
    from tidings.stream.commit_queue import CommitQueue
    from tidings.stream.file_source import infer_or_load_schema, stream_files
    from tidings.stream.index_updater import IndexUpdater
    from tidings.stream.live_index import LiveIndex
    from tidings.stream.micro_batch import MicroBatchRunner, write_batches
    from tidings.stream.plan_refresh import PlanRefresher
    from tidings.stream.session import STREAM_SETTINGS

    spark = tidings.session()
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    checkpoint = folder / "checkpoint"
    directory = infer_or_load_schema(spark, str(source), folder / "source.json", lambda: False)
    if directory is None:
        raise RuntimeError("the stream was stopped before it started")
    updater = IndexUpdater(store, folder / "index")
    commits = CommitQueue(store, folder / "spill", lambda: open_store(folder))
    runner = MicroBatchRunner(checkpoint, LiveIndex(updater, PlanRefresher(updater, store)), commits)
    writer = write_batches(stream_files(spark, directory, posts_per_batch), runner)
    writer = writer.option("checkpointLocation", os.path.abspath(checkpoint))
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")).start()
    try:
        yield query, runner
    finally:
        runner.stopping.set()
        with runner.running:
            pass
        query.stop()
        commits.wait()


def measure_latency(
    folder: Path, posts: Posts, queries: list[str], rate: int, seconds: int, report: Report
) -> dict[str, Any]:
    """Measure milliseconds from input file to stored match, and from a new subscription to its first match."""
    source = folder / "posts"
    source.mkdir(parents=True)
    with _store(folder / "state", queries) as store:
        feeder = Feeder(source, posts, rate, _FILE_INTERVAL_S)
        feeder.write_file()
        with _running_stream(folder / "state", store, source) as (query, _):
            feeder.start()
            time.sleep(5)  # warm-up of the JVM and the workers
            warm = time.time()
            time.sleep(seconds / 2)
            subscribed = time.time()
            marker = store.subscriptions.add(MARKER)
            time.sleep(seconds / 2)
            feeder.stop()
            progress = [batch for batch in query.recentProgress if batch.numInputRows]
        stored_at = {row.batch: row.finished_at for row in store.batches.recent(limit=10_000) if row.finished_at}
        latencies = _latencies(store, marker, stored_at)
        first = min((stored_at[match.batch] for match in store.matches.since(marker, limit=1)), default=float("nan"))
    percentiles = {f"p{p}_ms": float(np.percentile(latencies, p)) * 1000 for p in (50, 95, 99)}
    report(
        f"  {rate:,} posts/s: "
        + ", ".join(f"{name} {value:,.0f}" for name, value in percentiles.items())
        + f"; a new subscription matched after {(first - subscribed) * 1000:,.0f} ms"
    )
    return {
        "posts_per_second": rate,
        "seconds": seconds,
        "measured_from": warm,
        **percentiles,
        "first_match_ms": (first - subscribed) * 1000,
        "bookkeeping_share": _bookkeeping_share(progress),
        "batches": len(progress),
        "backlog_posts": feeder.posts_written - sum(batch.numInputRows for batch in progress),
    }


def _latencies(store: Store, marker: int, stored_at: dict[int, float]) -> list[float]:
    """Return the latencies of all posts with the marker; `time` of a post is when it was written."""
    latencies: list[float] = []
    cursor = 0
    while page := store.matches.since(marker, cursor=cursor, limit=10_000):
        latencies += [stored_at[match.batch] - float(match.time or "nan") for match in page if match.batch in stored_at]
        cursor = page[-1].cursor
    return latencies or [float("nan")]


def _bookkeeping_share(progress: list[Any]) -> float:
    """Return Spark's own share of the batch time: everything except our function."""
    total = sum(batch.durationMs["triggerExecution"] for batch in progress)
    return 1 - sum(batch.durationMs.get("addBatch", 0) for batch in progress) / total if total else float("nan")
