"""Process rows in the nearest tasks. Each task knows its site and selects its rows.

Spark does not let a program choose the executor of a partition. Therefore all tasks of a stage run simultaneously
(barrier mode) and exchange their sites. Each task has all rows, computes the same assignment and keeps its own rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from tidings.crawl.crawler import CrawlOptions
from tidings.crawl.decide import VisitOutcome
from tidings.crawl.latency import Latencies
from tidings.crawl.locality import assign_feeds
from tidings.net.urls import host_of
from tidings.spark.arrow_blobs import ArrowBatches, Stage
from tidings.spark.crawl_stage import OUTCOME_SCHEMA, feed_columns, parse_outcome, visit_stage
from tidings.store.feeds import DueFeed

SITE_VARIABLE = "TIDINGS_SITE"  # environment variable of an executor: its site
RowAssignment = Callable[[pa.Table, Sequence[str]], NDArray[np.intp]]
"""(rows, sites of all tasks) → the task of each row"""


def by_host_latency(host: str, latencies: Latencies | None) -> RowAssignment:
    """Return an assignment of rows to near tasks; `host` is the column with the host name."""

    def assign(rows: pa.Table, sites: Sequence[str]) -> NDArray[np.intp]:
        return assign_feeds(rows.column(host).to_pylist(), sites, latencies)

    return assign


def map_rows_near(
    spark: SparkSession, rows: pa.Table, tasks: int, assign: RowAssignment, stage: Stage, fields: str
) -> pa.Table:
    """Run a stage on rows, each in the task that `assign` returns. Needs one free core per task."""
    packed = spark.sparkContext.broadcast(_serialize(rows))

    def run_task(_: ArrowBatches) -> ArrowBatches:
        context = BarrierTaskContext.get()
        sites = context.allGather(os.environ.get(SITE_VARIABLE, ""))
        all_rows = pa.ipc.open_stream(packed.value).read_all()
        own_rows = all_rows.filter(pa.array(assign(all_rows, sites) == context.partitionId()))
        yield from stage(iter(own_rows.combine_chunks().to_batches()))

    try:
        return spark.range(0, tasks, 1, tasks).mapInArrow(run_task, fields, barrier=True).toArrow()
    finally:
        packed.unpersist()


def crawl_near(
    spark: SparkSession,
    feeds: Sequence[DueFeed],
    known: Mapping[int, str],
    options: CrawlOptions,
    crawlers: int,
    latencies: Latencies | None,
) -> list[VisitOutcome]:
    """Visit feeds like `crawl_round`, but each from a near site."""
    hosts = pa.array([host_of(feed.url) for feed in feeds], pa.string())
    rows = pa.table({"host": hosts, **feed_columns(feeds, known)})
    assign = by_host_latency("host", latencies)
    outcomes = map_rows_near(spark, rows, crawlers, assign, visit_stage(options), OUTCOME_SCHEMA)
    return [parse_outcome(text) for text in outcomes["outcome"].to_pylist()]


def _serialize(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
