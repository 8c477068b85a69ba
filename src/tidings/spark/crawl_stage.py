"""One round of a crawl on Spark: due feeds are assigned to crawlers, and each crawler visits many concurrently.

All feeds of a host go to one crawler, so that its rate limits per host hold for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import orjson
import pyarrow as pa
import uvloop
from pyspark.sql import SparkSession

from tidings.crawl.crawler import Crawler, CrawlOptions
from tidings.crawl.decide import FeedVisit, VisitMemory, VisitOutcome
from tidings.crawl.identity import unpack_known
from tidings.crawl.parser_process import ParserProcess
from tidings.net.urls import host_of
from tidings.spark.arrow_blobs import ArrowBatches, Stage
from tidings.store.feeds import DueFeed, VisitRecord

HostAssignment = Callable[[Sequence[str], int], Sequence[int]]
"""(host of each feed, number of crawlers) → the crawler of each feed; equal hosts get the same crawler"""

OUTCOME_SCHEMA = "outcome string"
_FEED_COLUMNS = {"id": pa.int64(), **dict.fromkeys(("url", "visit", "known", "owner"), pa.string())}
_BATCH_OUTCOMES = 50
_PARSERS = 2  # per worker: the last crawler of a round has the other cores for itself
_parsers = tuple(ParserProcess() for _ in range(_PARSERS))  # reused by all tasks of a Python worker


def assign_by_hash(hosts: Sequence[str], crawlers: int) -> list[int]:
    """Assign hosts to crawlers by a hash of their names."""
    return [int.from_bytes(blake2b(host.encode(), digest_size=8).digest(), "big") % crawlers for host in hosts]


def crawl_round(
    spark: SparkSession,
    feeds: Sequence[DueFeed],
    known: Mapping[int, str],
    options: CrawlOptions,
    crawlers: int,
    assign: HostAssignment = assign_by_hash,
) -> list[VisitOutcome]:
    """Visit the feeds and return the outcomes.

    It uses an RDD with one task per crawler that has feeds: planning a DataFrame takes four times as long.
    """
    rows: dict[int, list[dict[str, object]]] = {}
    for feed, crawler in zip(feeds, assign([host_of(feed.url) for feed in feeds], crawlers), strict=True):
        rows.setdefault(crawler, []).append(to_feed_row(feed, known))
    shares = [orjson.dumps(share) for share in rows.values()]

    def visit_shares(texts: Iterable[bytes]) -> Iterator[bytes]:
        for outcomes in visit_all([parse_feed_row(row) for text in texts for row in orjson.loads(text)], options):
            yield from map(orjson.dumps, outcomes)

    outcomes = spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(visit_shares).collect()
    return [parse_outcome(text) for text in outcomes]


def to_feed_row(feed: DueFeed, known: Mapping[int, str]) -> dict[str, object]:
    """Return what `parse_feed_row` reads; `known` has the known articles per feed."""
    return {**feed._asdict(), "known": known.get(feed.id, "[]")}


def feed_columns(feeds: Sequence[DueFeed], known: Mapping[int, str]) -> dict[str, pa.Array]:
    """Return the columns that `visit_stage` reads; `known` has the known articles per feed."""
    rows = [to_feed_row(feed, known) for feed in feeds]
    return {name: pa.array([row[name] for row in rows], kind) for name, kind in _FEED_COLUMNS.items()}


def visit_stage(options: CrawlOptions) -> Stage:
    """feeds → outcomes of their visits, as JSON."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        visits = [parse_feed_row(row) for batch in batches for row in batch.to_pylist()]
        for outcomes in visit_all(visits, options):
            texts = [orjson.dumps(outcome) for outcome in outcomes]
            yield pa.record_batch({"outcome": pa.array(texts, pa.string())})

    return stage


def visit_all(
    visits: Iterable[FeedVisit], options: CrawlOptions, parsers: Sequence[ParserProcess] = _parsers
) -> Iterator[list[VisitOutcome]]:
    """Visit feeds in this process and parse in its children; yield outcomes in batches while others run."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcomes = Crawler(options, parsers).visit_all(visits)
        while batch := runner.run(_next_batch(outcomes)):
            yield batch


async def _next_batch(outcomes: AsyncIterator[VisitOutcome]) -> list[VisitOutcome]:
    batch: list[VisitOutcome] = []
    async for outcome in outcomes:
        batch.append(outcome)
        if len(batch) == _BATCH_OUTCOMES:
            break
    return batch


def parse_feed_row(row: Mapping[str, object]) -> FeedVisit:
    """Parse a row of `to_feed_row`."""
    return FeedVisit(
        int(str(row["id"])),
        str(row["url"]),
        VisitMemory.from_json(str(row["visit"])),
        unpack_known(str(row["known"])),
        str(row["owner"]),
    )


def parse_outcome(text: str | bytes) -> VisitOutcome:
    """Parse the JSON of an outcome."""
    fields = orjson.loads(text)
    return VisitOutcome(**{**fields, "visited": VisitRecord(**fields["visited"])})
