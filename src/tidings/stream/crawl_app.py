"""Run the crawler: every round is a Spark job, until it is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tidings.crawl.crawler import CrawlOptions
from tidings.crawl.decide import VisitOutcome
from tidings.crawl.latency import Latencies
from tidings.crawl.loop import CrawlLoop, CrawlStats
from tidings.log import Event
from tidings.spark.crawl_stage import crawl_round
from tidings.spark.locality import crawl_near
from tidings.spark.session import session
from tidings.spark.signals import ignore_errors_once_stopping, owned_session, save_handlers, set_event_on_signal
from tidings.store import DueFeed, open_store

LOG = logging.getLogger("tidings.crawl")
_SETTINGS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True, slots=True)
class CrawlJob:
    """What to crawl, and where."""

    store_url: str
    inbox: Path
    options: CrawlOptions = field(default_factory=CrawlOptions)
    crawlers: int | None = None
    master: str | None = None
    once: bool = False
    latencies: Latencies | None = None


def run_crawl(job: CrawlJob) -> CrawlStats:
    """Run until SIGINT or SIGTERM or, with `once`, until all feeds that are due were visited."""
    stop = threading.Event()
    with ExitStack() as stack:
        store = stack.enter_context(open_store(job.store_url))
        stack.enter_context(store.lease("crawler"))
        stack.enter_context(set_event_on_signal(stop))
        spark = stack.enter_context(_crawl_session(job.master))
        LOG.info(Event("crawler started", feeds=sum(1 for _ in store.feeds.all()), inbox=job.inbox))
        crawlers = job.crawlers or spark.sparkContext.defaultParallelism

        def visit(feeds: Sequence[DueFeed], known: Mapping[int, str]) -> list[VisitOutcome]:
            outcomes: list[VisitOutcome] = []  # stays empty when stopped: the feeds stay due
            with ignore_errors_once_stopping(stop, Exception):
                if job.latencies is not None:
                    outcomes = crawl_near(spark, feeds, known, job.options, crawlers, job.latencies)
                else:
                    outcomes = crawl_round(spark, feeds, known, job.options, crawlers)
            return outcomes

        return CrawlLoop(store, job.inbox, job.options.rate_limit, visit).run(stop, job.once)


@contextmanager
def _crawl_session(master: str | None) -> Iterator[SparkSession]:
    restore_handlers = save_handlers()
    spark = session(master, _SETTINGS)
    with owned_session(spark):
        restore_handlers()
        yield spark
