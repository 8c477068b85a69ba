"""Run the crawler: every round is a Spark job, and several run at the same time, until it is stopped."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tidings.crawl.crawler import CrawlOptions
from tidings.crawl.decide import VisitOutcome
from tidings.crawl.lanes import SLOW, Lane
from tidings.crawl.latency import Latencies
from tidings.crawl.loop import CrawlLoop, CrawlStats
from tidings.log import Event
from tidings.spark.crawl_stage import crawl_round
from tidings.spark.gateway import choose_master
from tidings.spark.locality import crawl_near
from tidings.spark.process_end import named_jvm_end
from tidings.spark.run_files import place_run_files
from tidings.spark.session import session
from tidings.spark.signals import (
    cancel_jobs_on,
    exit_on_signal,
    ignore_errors_once_stopping,
    owned_session,
    save_handlers,
    set_event_on_signal,
)
from tidings.store import DueFeed, open_store

LOG = logging.getLogger("tidings.crawl")
EXTRA_SLOTS = 2  # one for the slow lane, one for a second round in the fast lane
_LOCAL = re.compile(r"local(\[(?P<cores>\*|\d+)(?P<failures>\s*,\s*\d+)?\])?")
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
    work_dir: Path | None = None  # for the temporary files of Spark and its log


def run_crawl(job: CrawlJob) -> CrawlStats:
    """Run until SIGINT or SIGTERM or, with `once`, until all feeds that are due were visited."""
    stop = threading.Event()
    with ExitStack() as stack:
        with exit_on_signal():
            store = stack.enter_context(open_store(job.store_url))
            stack.enter_context(store.lease("crawler"))
            if job.work_dir is not None:
                place_run_files(job.work_dir)
            spark = stack.enter_context(_crawl_session(job.master))
            crawlers = job.crawlers or max(1, spark.sparkContext.defaultParallelism - EXTRA_SLOTS)  # asks the JVM
        stack.enter_context(set_event_on_signal(stop))
        LOG.info(Event("crawler started", feeds=sum(1 for _ in store.feeds.all()), inbox=job.inbox))
        keyed_options = replace(job.options, post_id_key=store.accounts.derive_key("post ids"))

        def visit(feeds: Sequence[DueFeed], known: Mapping[int, str], lane: Lane) -> list[VisitOutcome]:
            outcomes: list[VisitOutcome] = []  # stays empty when stopped: the feeds stay due
            options = keyed_options.in_lane(lane)
            with ignore_errors_once_stopping(stop, Exception):
                if lane is SLOW:
                    with cancel_jobs_on(stop, spark):
                        outcomes = crawl_round(spark, feeds, known, options, 1)
                elif job.latencies is not None:
                    outcomes = crawl_near(spark, feeds, known, options, crawlers, job.latencies)
                else:
                    outcomes = crawl_round(spark, feeds, known, options, crawlers)
            return outcomes

        return CrawlLoop(store, job.inbox, job.options.rate_limit, visit).run(stop, job.once)


@contextmanager
def _crawl_session(master: str | None) -> Iterator[SparkSession]:
    restore_handlers = save_handlers()
    with named_jvm_end("while it started"):
        spark = session(add_slots(choose_master(master)), _SETTINGS)
    with owned_session(spark), named_jvm_end():
        restore_handlers()
        yield spark


def add_slots(master: str) -> str:
    """Add task slots to a local master: crawlers mostly wait, so more of them than cores run at the same time."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return master
    cores = os.cpu_count() or 1 if local["cores"] == "*" else int(local["cores"] or 1)
    return f"local[{cores + EXTRA_SLOTS}{local['failures'] or ''}]"
