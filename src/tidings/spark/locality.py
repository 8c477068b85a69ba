"""Rows to the tasks that are nearest to them: every task knows where it runs, and takes what is its own.

Spark does not let a program choose the executor of a partition. So all tasks of a stage run at once (barrier mode),
tell each other their sites, and each reckons the same assignment and works on its own of the rows, which all have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from tidings.crawl.crawler import Manners
from tidings.crawl.decide import Outcome
from tidings.crawl.latency import Latencies
from tidings.crawl.locality import share_out
from tidings.net.urls import host_of
from tidings.spark.arrow_blobs import Batches, Stage
from tidings.spark.crawl_stage import outcome_of, visiting
from tidings.store.feeds import DueFeed

SITE = "TIDINGS_SITE"  # in the environment of an executor: where it is
Share = Callable[[pa.Table, Sequence[str]], NDArray[np.intp]]
"""From the rows and the sites of all tasks, the task of each row."""


def near_hosts(host: str, latencies: Latencies | None) -> Share:
    """Rows to near tasks, by their column with a host's name."""

    def share(rows: pa.Table, sites: Sequence[str]) -> NDArray[np.intp]:
        return share_out(rows.column(host).to_pylist(), sites, latencies)

    return share


def at_sites(spark: SparkSession, rows: pa.Table, tasks: int, share: Share, stage: Stage, fields: str) -> pa.Table:
    """What a stage makes of these rows, each given to the task that `share` says; as many cores must be free."""
    sent = spark.sparkContext.broadcast(_packed(rows))

    def work(_: Batches) -> Batches:
        context = BarrierTaskContext.get()
        sites = context.allGather(os.environ.get(SITE, ""))
        everything = pa.ipc.open_stream(sent.value).read_all()
        mine = everything.filter(pa.array(share(everything, sites) == context.partitionId()))
        yield from stage(iter(mine.combine_chunks().to_batches()))

    try:
        return spark.range(0, tasks, 1, tasks).mapInArrow(work, fields, barrier=True).toArrow()
    finally:
        sent.unpersist()


def crawl_near(
    spark: SparkSession,
    feeds: Sequence[DueFeed],
    known: Mapping[int, str],
    manners: Manners,
    crawlers: int,
    latencies: Latencies | None,
) -> list[Outcome]:
    """As `crawl_round`, but every feed is visited from a site near it."""
    rows = pa.table(
        {
            "host": pa.array([host_of(one.url) for one in feeds], pa.string()),
            "feed": pa.array([one.id for one in feeds], pa.int64()),
            "url": pa.array([one.url for one in feeds], pa.string()),
            "visit": pa.array([one.visit for one in feeds], pa.string()),
            "known": pa.array([known.get(one.id, "[]") for one in feeds], pa.string()),
        }
    )
    told = at_sites(spark, rows, crawlers, near_hosts("host", latencies), visiting(manners), "outcome string")
    return [outcome_of(text) for text in told["outcome"].to_pylist()]


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
