"""`tidings crawl`: the rounds of a crawl, each a job on Spark, until it is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tidings.crawl.crawler import Manners
from tidings.crawl.decide import Outcome
from tidings.crawl.latency import Latencies
from tidings.crawl.loop import Rounds, Say, Tally
from tidings.spark.crawl_stage import crawl_round
from tidings.spark.locality import crawl_near
from tidings.spark.session import session
from tidings.spark.signals import forgiven_when, handlers, set_by_signals, stopped_afterwards
from tidings.store import DueFeed, open_store

_SETTINGS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True, slots=True)
class CrawlRequest:
    """What the command asks for."""

    where: str
    inbox: Path
    manners: Manners = field(default_factory=Manners)
    crawlers: int | None = None
    master: str | None = None
    once: bool = False
    latencies: Latencies | None = None


def run_crawl(request: CrawlRequest, say: Say) -> Tally:
    """Run until told to stop (SIGINT, SIGTERM) or, with `once`, until all that is due was visited."""
    stop = threading.Event()
    with ExitStack() as stack:
        store = stack.enter_context(open_store(request.where))
        stack.enter_context(store.hold_crawler())
        stack.enter_context(set_by_signals(stop))
        spark = stack.enter_context(_started(request.master))
        say(f"crawling {sum(1 for _ in store.feeds()):,} feeds; new articles go to {request.inbox}. Ctrl-C stops.")
        crawlers = request.crawlers or spark.sparkContext.defaultParallelism

        def visit(feeds: Sequence[DueFeed], known: Mapping[int, str]) -> list[Outcome]:
            outcomes: list[Outcome] = []  # so it stays where the visits are given up: they are due still
            with forgiven_when(stop, Exception):
                if request.latencies is not None:
                    outcomes = crawl_near(spark, feeds, known, request.manners, crawlers, request.latencies)
                else:
                    outcomes = crawl_round(spark, feeds, known, request.manners, crawlers)
            return outcomes

        return Rounds(store, request.inbox, request.manners.politeness, visit, say).run(stop, request.once)


@contextmanager
def _started(master: str | None) -> Iterator[SparkSession]:
    put_back = handlers()
    spark = session(master, _SETTINGS)
    with stopped_afterwards(spark):
        put_back()
        yield spark
