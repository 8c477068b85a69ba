"""The stream measured: sustained rate into SQLite beside the batch rate, latency at given rates, a new subscription.

All of it in one session, so that what is compared had the same warm JVM. The subscriptions are long enough that about
one matches a post, as the issue asks.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidings
from tidings.config import MAX_POSTS_A_BATCH
from tidings.store import Store, open_store
from tidings_lab import stages
from tidings_lab.bench_store import measure_rows
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.feeder import MARKER, Feeder
from tidings_lab.sample_queries import draw_queries

Say = Callable[[str], None]
WORDS = (3, 6)  # of a subscription: 0.9 of 100,000 match a tweet
RATES = (1_000, 10_000)
_FILES = 40  # of the posts once
_TIMES = 4  # they come, under other ids: the last batch, which is stored with nothing beside it, must not count much
_WARM_UPS = 2  # turns, of many small batches: the JVM's compiler needs hundreds to be done with Spark's planner
_MEASURED = 3  # turns
_EVERY_S = 0.1  # a file of posts


def measure_stream(posts: Posts, subscriptions: int, seed: int, quick: bool, say: Say) -> dict[str, Any]:
    """All measurements of the stream; returns what the record keeps."""
    rng = np.random.default_rng([seed, 3])
    queries = draw_queries(sample_texts(posts, rng), subscriptions, rng, *WORDS).to_pylist()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-stream-") as name:
        folder = Path(name)
        found: dict[str, Any] = {"sustained": _sustained(folder / "sustained", posts, queries, say)}
        seconds = 5 if quick else 30
        found["latency"] = [
            measure_latency(folder / f"rate{rate}", posts, queries, rate, seconds, say) for rate in RATES
        ]
    found["rows"] = measure_rows(3 if quick else 8, 10_000 if quick else 75_000, say)
    return found


def _sustained(folder: Path, posts: Posts, queries: list[str], say: Say) -> dict[str, Any]:
    """posts/s of floor, batch and stream from the same files into SQLite; the first turns are a warm-up."""
    source = folder / "posts"
    count = _write(posts, source)
    spark = tidings.session()
    frame = spark.read.parquet(str(source)).select("id", "text")
    floor = frame.mapInArrow(stages.identity, "id bigint, text string")
    table = pa.table({"id": np.arange(1, len(queries) + 1), "query": queries})
    from tidings.spark.api import prepare

    batch = prepare(frame, table, plan="replicated").matches
    rates: dict[str, list[float]] = {"floor": [], "batch": [], "stream": []}
    shares, matches = [], 0
    for turn in range(_WARM_UPS + _MEASURED):
        for name, one in (("floor", floor), ("batch", batch)):
            start = time.perf_counter()
            one.write.format("noop").mode("overwrite").save()
            rates[name].append(count / (time.perf_counter() - start))
        with _store(folder / f"state{turn}", queries) as store:
            at_once = 1 if turn < _WARM_UPS else MAX_POSTS_A_BATCH  # a file at least
            seconds, progress = _taken(folder / f"state{turn}", store, source, at_once)
            rates["stream"].append(count / seconds)
            shares.append(_bookkeeping(progress))
            matches = store.sizes().matches
        say("  " + ", ".join(f"{name} {rate[-1]:,.0f}" for name, rate in rates.items()) + " posts/s")
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


def _write(posts: Posts, source: Path) -> int:
    """The posts as files, several times over; how many they are then."""
    source.mkdir(parents=True)
    size = -(-len(posts) // _FILES)
    for number in range(_FILES * _TIMES):
        part = posts.table.slice(number % _FILES * size, size).select(["text"])
        ids = pa.array(np.arange(len(part), dtype=np.int64) + number * size)
        pq.write_table(part.add_column(0, "id", ids), source / f"{number:03}.parquet")
    return len(posts) * _TIMES


def _taken(folder: Path, store: Store, source: Path, at_once: int) -> tuple[float, list[Any]]:
    """The seconds a stream takes for all files that are there, its batches alone, and what Spark told of them."""
    with _running(folder, store, source, at_once, once=True) as (query, batches):
        query.awaitTermination()
        ended = time.perf_counter()
        batches.until_stored()
        last_s = time.perf_counter() - ended
        progress = [one for one in query.recentProgress if one.numInputRows]
    return sum(one.durationMs["triggerExecution"] for one in progress) / 1000 + last_s, progress


@contextmanager
def _store(folder: Path, queries: list[str]) -> Iterator[Store]:
    folder.mkdir(parents=True)
    with open_store(folder) as store:
        store.subscribe_many([(query,) for query in queries])
        yield store


@contextmanager
def _running(
    folder: Path, store: Store, source: Path, at_once: int = MAX_POSTS_A_BATCH, once: bool = False
) -> Iterator[tuple[Any, Any]]:
    """A stream in this session, with its batches; the parts are those of `tidings run`."""
    from tidings.stream.checkpoint import stream_id
    from tidings.stream.commit_queue import Storing
    from tidings.stream.file_source import first_look, read_folder
    from tidings.stream.index_updater import Follower
    from tidings.stream.micro_batch import Batches, each_batch
    from tidings.stream.plan_refresh import Relearner
    from tidings.stream.session import STREAM_SETTINGS
    from tidings.stream.sinks import ToStore
    from tidings.stream.source_log import taken_files

    spark = tidings.session()
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    checkpoint = folder / "checkpoint"
    look = first_look(spark, str(source), folder / "source.json", lambda: False)
    if look is None:
        raise RuntimeError("nobody stops a benchmark")
    follower = Follower(store, folder / "index")
    relearner = Relearner(follower, store, None)
    storing = Storing(store, folder / "found", lambda: open_store(folder))
    batches = Batches(
        store,
        follower,
        ToStore(),
        lambda: stream_id(checkpoint),
        relearner,
        files=lambda batch: taken_files(checkpoint, batch),
        storing=storing,
    )
    writer = each_batch(read_folder(spark, look, at_once), batches)
    writer = writer.option("checkpointLocation", os.path.abspath(checkpoint))
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")).start()
    try:
        yield query, batches
    finally:
        batches.stopping.set()
        with batches.running:
            pass
        query.stop()
        batches.until_stored()


def measure_latency(
    folder: Path, posts: Posts, queries: list[str], rate: int, seconds: int, say: Say
) -> dict[str, Any]:
    """Milliseconds from a post's file being there to its match being stored, and until a new subscription matches."""
    source = folder / "posts"
    source.mkdir(parents=True)
    with _store(folder / "state", queries) as store:
        feeder = Feeder(source, posts, rate, _EVERY_S)
        feeder.put()
        with _running(folder / "state", store, source) as (query, _):
            feeder.start()
            time.sleep(5)  # the JVM and the workers get warm
            warm = time.time()
            time.sleep(seconds / 2)
            asked = time.time()
            marker = store.subscribe(MARKER)
            time.sleep(seconds / 2)
            feeder.stop()
            progress = [one for one in query.recentProgress if one.numInputRows]
        stored_at = {one.batch: one.finished_at for one in store.ledger(last=10_000) if one.finished_at}
        latencies = _latencies(store, marker, stored_at)
        first = min((stored_at[match.batch] for match in store.matches(marker, limit=1)), default=float("nan"))
    percentiles = {f"p{p}_ms": float(np.percentile(latencies, p)) * 1000 for p in (50, 95, 99)}
    say(
        f"  {rate:,} posts/s: "
        + ", ".join(f"{name} {value:,.0f}" for name, value in percentiles.items())
        + f"; a new subscription matched after {(first - asked) * 1000:,.0f} ms"
    )
    return {
        "posts_per_second": rate,
        "seconds": seconds,
        "measured_from": warm,
        **percentiles,
        "first_match_ms": (first - asked) * 1000,
        "bookkeeping_share": _bookkeeping(progress),
        "batches": len(progress),
        "behind": feeder.put_posts - sum(one.numInputRows for one in progress),
    }


def _latencies(store: Store, marker: int, stored_at: dict[int, float]) -> list[float]:
    """Of all posts that the marker found: `time` tells when each was put there."""
    found: list[float] = []
    cursor = 0
    while page := store.matches(marker, since=cursor, limit=10_000):
        found += [stored_at[one.batch] - float(one.time or "nan") for one in page if one.batch in stored_at]
        cursor = page[-1].cursor
    return found or [float("nan")]


def _bookkeeping(progress: list[Any]) -> float:
    """The share of the batches' time that is Spark's own: everything but running our function."""
    whole = sum(one.durationMs["triggerExecution"] for one in progress)
    return 1 - sum(one.durationMs.get("addBatch", 0) for one in progress) / whole if whole else float("nan")
