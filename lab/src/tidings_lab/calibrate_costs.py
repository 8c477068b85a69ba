"""`tidings-lab calibrate`: measure every cost of the provisioner on this machine.

`tidings provision --costs FILE` reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from tidings.provision.costs import Calibration, MeasuredCosts
from tidings_lab import results
from tidings_lab.articles import load_articles
from tidings_lab.calibrate_crawl import crawl_costs
from tidings_lab.calibrate_filter import filter_costs, measure_spark_bytes, routing_costs
from tidings_lab.calibrate_store import store_costs
from tidings_lab.calibrate_web import web_costs
from tidings_lab.datasets import benchmark_subscriptions, load_posts
from tidings_lab.progress import Report


@dataclass(frozen=True, slots=True)
class CalibrationSizes:
    """The amount of data per measurement."""

    articles: int = 20_000
    queries: tuple[int, int] = (5_000, 50_000)
    routed: int = 50_000
    matchers: tuple[int, ...] = (4, 16, 64)
    stored: int = 5_000
    batches: int = 4
    answers: int = 2_000
    crawled: int = 1_000
    spark: bool = True


QUICK = CalibrationSizes(500, (50, 500), 500, (4, 8), 100, 2, 50, 20, spark=False)

_ASSUMED: MeasuredCosts = {
    "crawl_ignoring_share": (0.2, "assumed: one server in five ignores conditional requests"),
    "hit_wire_bytes": (16.0, "assumed: two ids of eight bytes"),
    "store_memory_share": (0.1, "assumed: readers request the newest part; the rest stays on disk"),
}


def calibrate(report: Report, sizes: CalibrationSizes = CalibrationSizes(), seed: int = 7) -> Calibration:
    """Measure all costs one after another; this takes minutes."""
    origin = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        **results.describe_commit(),
        "versions": results.package_versions(),
        "host": results.describe_host(),
    }
    report("reading articles and queries")
    articles = load_articles(seed)
    queries = benchmark_subscriptions(sizes.queries[1], seed).table.column("query").combine_chunks()
    texts = articles.texts(sizes.articles)
    costs: dict[str, tuple[float, str]] = {**_ASSUMED}
    costs["article_bytes"] = (articles.mean_bytes(), f"measured: {len(articles.posts):,} articles")
    report(f"filters: {sizes.queries[1]:,} subscriptions, {len(texts):,} articles")
    costs |= filter_costs(texts, queries, sizes.queries, seed)
    report("filters: routing")
    costs |= routing_costs(load_posts(2 * sizes.articles, seed).texts, sizes.routed, sizes.matchers, seed)
    report("reflectors: the store")
    costs |= store_costs(queries.to_pylist(), sizes.stored, sizes.batches)
    report("reflectors: responses to readers")
    costs |= web_costs(_sample(texts), sizes.answers)
    report(f"crawlers: {sizes.crawled:,} feeds")
    costs |= crawl_costs(sizes.crawled, seed)
    report("filters: starting Spark")
    costs |= _memory_costs(costs["crawler_bytes"], sizes.spark)
    return Calibration.from_measurements(costs, {**origin, "data": articles.source})


def _memory_costs(crawler: tuple[float, str], is_measured: bool) -> MeasuredCosts:
    """Return the memory of a filter (JVM and Python workers) and of a crawler (JVM, crawler and parser)."""
    if not is_measured:
        return {"filter_bytes": (6e8, "assumed: not measured, Spark was not started")}
    spark = measure_spark_bytes()
    java, workers = (
        f"JVM {spark.java / 1e6:.0f} MB",
        f"Python workers of {spark.cores} cores {spark.workers / 1e6:.0f} MB",
    )
    return {
        "filter_bytes": (spark.java + spark.workers, f"measured: {java}, {workers}"),
        "crawler_bytes": (spark.java + crawler[0], f"measured: {java}, crawler and parser {crawler[0] / 1e6:.0f} MB"),
    }


def _sample(texts: pa.Array) -> list[str]:
    sample: list[str] = texts.slice(0, 1_000).to_pylist()
    return sample
