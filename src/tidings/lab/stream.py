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
from tidings.lab import stages
from tidings.lab.datasets import Posts, sample_texts
from tidings.lab.draw import draw_queries
from tidings.lab.feeder import MARKER, Feeder
from tidings.lab.rows import measure_rows
from tidings.store import Store, open_store

Say = Callable[[str], None]
WORDS = (4, 5)  # of a subscription
RATES = (1_000, 10_000)
_FILES = 20
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
    """posts/s of floor, batch and stream from the same files into SQLite; the first turn is a warm-up."""
    source = folder / "posts"
    source.mkdir(parents=True)
    size = -(-len(posts) // _FILES)
    for number in range(_FILES):
        pq.write_table(posts.table.slice(number * size, size), source / f"{number:03}.parquet")
    spark = tidings.session()
    frame = spark.read.parquet(str(source)).select("id", "text")
    floor = frame.mapInArrow(stages.identity, "id bigint, text string")
    table = pa.table({"id": np.arange(1, len(queries) + 1), "query": queries})
    from tidings.spark.api import prepare

    batch = prepare(frame, table, plan="replicated").matches
    rates: dict[str, list[float]] = {"floor": [], "batch": [], "stream": []}
    shares, matches = [], 0
    for turn in range(3):
        for name, one in (("floor", floor), ("batch", batch)):
            start = time.perf_counter()
            one.write.format("noop").mode("overwrite").save()
            rates[name].append(len(posts) / (time.perf_counter() - start))
        with _store(folder / f"state{turn}", queries) as store:
            seconds, progress = _taken(folder / f"state{turn}", store, source)
            rates["stream"].append(len(posts) / seconds)
            shares.append(_bookkeeping(progress))
            matches = store.sizes().matches
        say("  " + ", ".join(f"{name} {rate[-1]:,.0f}" for name, rate in rates.items()) + " posts/s")
    ratios = [stream / batch for stream, batch in zip(rates["stream"][1:], rates["batch"][1:], strict=True)]
    return {
        "posts": len(posts),
        "subscriptions": len(queries),
        "matches_per_post": matches / len(posts),
        "posts_per_second": rates,
        "ratio_to_batch": max(ratios) if len(ratios) == 1 else float(np.median(ratios)),
        "bookkeeping_share": shares[-1],
    }


def _taken(folder: Path, store: Store, source: Path) -> tuple[float, list[Any]]:
    """The seconds a stream takes for all files that are there, its batches alone, and what Spark told of them."""
    with _running(folder, store, source, once=True) as query:
        query.awaitTermination()
        progress = [one for one in query.recentProgress if one.numInputRows]
    return sum(one.durationMs["triggerExecution"] for one in progress) / 1000, progress


@contextmanager
def _store(folder: Path, queries: list[str]) -> Iterator[Store]:
    folder.mkdir(parents=True)
    with open_store(folder) as store:
        store.subscribe_many([(query,) for query in queries])
        yield store


@contextmanager
def _running(folder: Path, store: Store, source: Path, once: bool = False) -> Iterator[Any]:
    """A stream in this session; the parts are those of `tidings run`."""
    from tidings.index.follow import Follower
    from tidings.spark.checkpoint import stream_id
    from tidings.spark.deliver import ToStore
    from tidings.spark.relearning import Relearner
    from tidings.spark.source import first_look, read_folder
    from tidings.spark.stream import Batches, each_batch

    spark = tidings.session()
    checkpoint = folder / "checkpoint"
    look = first_look(spark, str(source), folder / "source.json", lambda: False)
    if look is None:
        raise RuntimeError("nobody stops a benchmark")
    follower = Follower(store, folder / "index")
    relearner = Relearner(follower, store, None)
    batches = Batches(store, follower, ToStore(), lambda: stream_id(checkpoint), relearner)
    writer = each_batch(read_folder(spark, look, MAX_POSTS_A_BATCH), batches)
    writer = writer.option("checkpointLocation", os.path.abspath(checkpoint))
    query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")).start()
    try:
        yield query
    finally:
        batches.stopping.set()
        with batches.running:
            pass
        query.stop()


def measure_latency(
    folder: Path, posts: Posts, queries: list[str], rate: int, seconds: int, say: Say
) -> dict[str, Any]:
    """Milliseconds from a post's file being there to its match being stored, and until a new subscription matches."""
    source = folder / "posts"
    source.mkdir(parents=True)
    with _store(folder / "state", queries) as store:
        feeder = Feeder(source, posts, rate, _EVERY_S)
        feeder.put()
        with _running(folder / "state", store, source) as query:
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
