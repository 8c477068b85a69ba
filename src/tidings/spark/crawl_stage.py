"""One round of a crawl on Spark: due feeds as a DataFrame, shared out over crawlers, each visiting many at once.

All feeds of a host are one crawler's, so that its politeness to hosts is everybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import orjson
import pyarrow as pa
import uvloop
from pyspark.sql import SparkSession

from tidings.crawl.crawler import Crawler, Manners
from tidings.crawl.decide import Asked, Memory, Outcome
from tidings.crawl.identity import unpacked
from tidings.crawl.parser_process import Parser
from tidings.net.urls import host_of
from tidings.spark.arrow_blobs import Batches, Stage
from tidings.store.feeds import DueFeed, Visited

ShareOut = Callable[[Sequence[str], int], Sequence[int]]
"""From the hosts of feeds and the number of crawlers, the crawler of each feed; equal hosts have equal crawlers."""

_FIELDS = "outcome string"
_A_BATCH = 50
_PARSERS = 2  # a crawler that is the last to be done has cores to itself
_parsers = tuple(Parser() for _ in range(_PARSERS))  # of a Python worker: they serve many tasks, and end with it


def by_name(hosts: Sequence[str], crawlers: int) -> list[int]:
    """Hosts shared out by a hash of their names."""
    return [int.from_bytes(blake2b(host.encode(), digest_size=8).digest(), "big") % crawlers for host in hosts]


def crawl_round(
    spark: SparkSession,
    feeds: Sequence[DueFeed],
    known: Mapping[int, str],
    manners: Manners,
    crawlers: int,
    share_out: ShareOut = by_name,
) -> list[Outcome]:
    """Visit all of them; what each visit led to."""
    table = pa.table(
        {
            "crawler": pa.array(share_out([host_of(one.url) for one in feeds], crawlers), pa.int32()),
            "feed": pa.array([one.id for one in feeds], pa.int64()),
            "url": pa.array([one.url for one in feeds], pa.string()),
            "visit": pa.array([one.visit for one in feeds], pa.string()),
            "known": pa.array([known.get(one.id, "[]") for one in feeds], pa.string()),
        }
    )
    due = spark.createDataFrame(table).repartitionById(crawlers, "crawler")
    outcomes = due.mapInArrow(visiting(manners), _FIELDS).toArrow()
    return [outcome_of(text) for text in outcomes["outcome"].to_pylist()]


def visiting(manners: Manners) -> Stage:
    """The stage: feeds in, outcomes out."""

    def visit(batches: Batches) -> Batches:
        asked = [asked_of(row) for batch in batches for row in batch.to_pylist()]
        for some in visit_all(asked, manners):
            yield pa.record_batch({"outcome": pa.array([orjson.dumps(one) for one in some], pa.string())})

    return visit


def visit_all(asked: Iterable[Asked], manners: Manners) -> Iterator[list[Outcome]]:
    """Visit them in this process, parsing in its children; some outcomes at a time, so that they travel meanwhile."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcomes = Crawler(manners, _parsers).visit_all(asked)
        while some := runner.run(_next(outcomes)):
            yield some


async def _next(outcomes: AsyncIterator[Outcome]) -> list[Outcome]:
    some: list[Outcome] = []
    async for one in outcomes:
        some.append(one)
        if len(some) == _A_BATCH:
            break
    return some


def asked_of(row: Mapping[str, object]) -> Asked:
    """A feed as it came over the wire."""
    return Asked(
        int(str(row["feed"])), str(row["url"]), Memory.from_json(str(row["visit"])), unpacked(str(row["known"]))
    )


def outcome_of(text: str) -> Outcome:
    """An outcome as it came back."""
    found = orjson.loads(text)
    return Outcome(**{**found, "visited": Visited(**found["visited"])})
