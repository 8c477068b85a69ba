"""`tidings provision --calibrate`: every cost of the provisioner, measured on this code, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from tidings.provision.costs import Calibration, Measured
from tidings_lab import results
from tidings_lab.articles import load_articles
from tidings_lab.calibrate_crawl import crawl_costs
from tidings_lab.calibrate_filter import filter_costs, routing_costs, spark_bytes
from tidings_lab.calibrate_store import store_costs
from tidings_lab.calibrate_web import web_costs
from tidings_lab.datasets import benchmark_subscriptions, load_posts

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything is measured with."""

    articles: int = 20_000
    queries: tuple[int, int] = (5_000, 50_000)
    routed: int = 50_000
    matchers: tuple[int, ...] = (4, 16, 64)
    stored: int = 5_000
    batches: int = 4
    answers: int = 2_000
    crawled: int = 1_000
    spark: bool = True


QUICK = Sizes(500, (50, 500), 500, (4, 8), 100, 2, 50, 20, spark=False)

_ASSUMED: Measured = {
    "crawl_ignoring_share": (0.2, "assumed: one server in five knows no conditional requests"),
    "hit_wire_bytes": (16.0, "assumed: two numbers of eight bytes"),
    "store_memory_share": (0.1, "assumed: what is newest is asked for; the rest is on disk"),
}


def calibrate(say: Say, sizes: Sizes = Sizes(), seed: int = 7) -> Calibration:
    """Measure everything, one after another; minutes."""
    origin = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        **results.commit(),
        "versions": results.versions(("fastapi", "uvicorn", "aiohttp")),
        "host": results.host(),
    }
    say("reading articles and queries")
    articles = load_articles(seed)
    queries = benchmark_subscriptions(sizes.queries[1], seed).table.column("query").combine_chunks()
    texts = articles.texts(sizes.articles)
    found: dict[str, tuple[float, str]] = {**_ASSUMED}
    found["article_bytes"] = (articles.mean_bytes(), f"measured: {len(articles.posts):,} articles")
    say(f"filters: {sizes.queries[1]:,} subscriptions, {len(texts):,} articles")
    found |= filter_costs(texts, queries, sizes.queries, seed)
    say("filters: routing")
    found |= routing_costs(load_posts(2 * sizes.articles, seed).texts, sizes.routed, sizes.matchers, seed)
    say("reflectors: the store")
    found |= store_costs(queries.to_pylist(), sizes.stored, sizes.batches)
    say("reflectors: answering readers")
    found |= web_costs(_some(texts), sizes.answers)
    say(f"crawlers: {sizes.crawled:,} feeds")
    found |= crawl_costs(sizes.crawled, seed)
    say("filters: starting Spark")
    found |= _with_spark(found["crawler_bytes"], sizes.spark)
    return Calibration.of(found, {**origin, "data": articles.source})


def _with_spark(crawler: tuple[float, str], is_measured: bool) -> Measured:
    """A filter is Spark with its workers, a crawler is Spark with what visits feeds."""
    if not is_measured:
        return {"filter_bytes": (6e8, "assumed: Spark was not started")}
    spark = spark_bytes()
    java, workers = (
        f"JVM {spark.java / 1e6:.0f} MB",
        f"Python workers of {spark.cores} cores {spark.workers / 1e6:.0f} MB",
    )
    return {
        "filter_bytes": (spark.java + spark.workers, f"measured: {java}, {workers}"),
        "crawler_bytes": (spark.java + crawler[0], f"measured: {java}, crawler and parser {crawler[0] / 1e6:.0f} MB"),
    }


def _some(texts: pa.Array) -> list[str]:
    said: list[str] = texts.slice(0, 1_000).to_pylist()
    return said
