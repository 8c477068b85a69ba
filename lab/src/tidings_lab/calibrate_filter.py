"""Cost of a filter: analyzing and matching an article, memory per subscription, routing, memory of the processes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.index.builder import create_index
from tidings.index.reader import Index
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.provision.costs import MeasuredCosts
from tidings.routing.wire import pack, routed_schema
from tidings_lab.clock import time_repetitions
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import NumberedSubscriptions, fit_plan, number_posts, take_posts

_BATCH = 5_000
_REPETITIONS = 5


def filter_costs(texts: pa.Array, queries: pa.Array, sizes: Sequence[int], seed: int) -> MeasuredCosts:
    """Measure a small and a large index (the first `sizes` queries) and the line through both."""
    small, large = (_MeasuredIndex(texts, queries.slice(0, size)) for size in sizes)
    each = max(0.0, (large.match_s - small.match_s) / (large.size - small.size))
    size = f"{large.size:,} queries, {len(texts):,} articles"
    return {
        "receive_cpu_s": (large.receive_s, f"measured: {size}"),
        "match_cpu_s": (
            max(0.0, small.match_s - each * small.size),
            f"measured: line through {small.size:,} and {size}",
        ),
        "match_subscription_cpu_s": (each, f"measured: line through {small.size:,} and {size}"),
        "match_share": (large.matches / (len(texts) * large.size), f"measured: {large.matches:,} matches, {size}"),
        "index_subscription_bytes": (
            (large.bytes - small.bytes) / (large.size - small.size),
            f"measured: files of {small.size:,} and {large.size:,} queries",
        ),
    }


class _MeasuredIndex:
    """An index of some queries, and the times to analyze and match the articles."""

    def __init__(self, texts: pa.Array, queries: pa.Array) -> None:
        self.size = len(queries)
        table = pa.table({"id": np.arange(1, self.size + 1), "query": queries})
        with tempfile.TemporaryDirectory(prefix="tidings-costs-") as name:
            folder = Path(name) / "index"
            index, _ = create_index(folder, table)
            self.bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            self._measure(index, [texts.slice(at, _BATCH) for at in range(0, len(texts), _BATCH)], len(texts))

    def _measure(self, index: Index, pieces: list[pa.Array], articles: int) -> None:
        receiver = index.analyzer()
        matcher = SegmentMatcher(index.open_shard(0)[0].segment, index.manifest.terms)
        received = [receiver.analyze(piece) for piece in pieces]
        nowhere = missing_positions(_BATCH)
        self.matches = sum(len(matcher.match(batch, nowhere[: len(batch)])) for batch in received)
        receiving = time_repetitions(lambda: [receiver.analyze(piece) for piece in pieces], _REPETITIONS)
        matching = time_repetitions(
            lambda: [matcher.match(batch, nowhere[: len(batch)]) for batch in received], _REPETITIONS
        )
        self.receive_s, self.match_s = receiving.best_cpu / articles, matching.best_cpu / articles


def routing_costs(texts: pa.Array, subscriptions: int, matchers: Sequence[int], seed: int) -> MeasuredCosts:
    """Measure the spread and the bytes of a routed article, with plans of the default partitioner."""
    posts = number_posts(texts)
    half = len(posts) // 2
    known, unseen = take_posts(posts, np.arange(half)), take_posts(posts, np.arange(half, len(posts)))
    subscribed = NumberedSubscriptions.of(known.draw(subscriptions, seed), posts.terms)
    routed = [_route(subscribed, known, unseen, count, seed) for count in matchers]
    size, spread = np.log(np.array(matchers)), np.log(np.array([spread for spread, _ in routed]))
    exponent = float(np.clip((size @ spread) / (size @ size), 0.0, 1.0))  # least squares through (1, 1)
    seen = ", ".join(f"{spread:.2f} of {count}" for (spread, _), count in zip(routed, matchers, strict=True))
    return {
        "spread_exponent": (exponent, f"measured: salb+, {subscriptions:,} subscriptions: {seen}"),
        "routed_bytes": (float(np.mean([size for _, size in routed])), "measured: packed blobs"),
    }


def _route(
    subscribed: NumberedSubscriptions, known: NumberedPosts, unseen: NumberedPosts, matchers: int, seed: int
) -> tuple[float, float]:
    """Return the number of matchers per article and the bytes per routed article."""
    cluster = SimulatedCluster(subscribed, fit_plan("salb+", subscribed, known, matchers), "anchor", seed)
    shares = cluster.route(subscribed.analyze(unseen)).batches
    schema = routed_schema(pa.int64(), len(subscribed.terms), False, False)
    packed = partial(
        pack, ids=pa.array(np.arange(len(unseen))), positions=missing_positions(len(unseen)), schema=schema
    )
    sent = sum(len(share.posts) for share in shares)
    return max(1.0, sent / len(unseen)), sum(packed(share).size for share in shares) / max(1, sent)


@dataclass(frozen=True, slots=True)
class SparkBytes:
    """Memory of the JVM and of all Python workers of one machine after the first matches."""

    java: float
    workers: float
    cores: int


def measure_spark_bytes() -> SparkBytes:
    """Start Spark, match some posts and measure the memory."""
    import psutil

    import tidings

    spark = tidings.session()
    posts = spark.createDataFrame([(number, "storm over london") for number in range(1_000)], "id bigint, text string")
    subscriptions = spark.createDataFrame([(1, "storm"), (2, "london")], "id bigint, query string")
    assert tidings.match(posts, subscriptions).count() == 2_000
    started = psutil.Process().children(recursive=True)
    sizes = [(process.name(), float(process.memory_full_info().uss)) for process in started]
    cores = spark.sparkContext.defaultParallelism
    spark.stop()
    java = sum(size for name, size in sizes if name == "java")
    return SparkBytes(java, sum(size for name, size in sizes if name != "java"), cores)
