"""A live matching of posts that arrive as files: one streaming query, told batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tidings.errors import TidingsError
from tidings.spark.api import match
from tidings.spark.session import LOG_FILE, session
from tidings.spark.signals import stopped_afterwards

POSTS = "id bigint, time string, author string, text string, lat double, lon double, lang string"
_EVERY = "1 second"
OnBatch = Callable[[list[tuple[Any, Any]]], None]  # gets (subscription id, post id) of every match of a batch


class LiveMatching:
    """A running query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def check(self) -> None:
        """TidingsError if the query has died."""
        if (error := self._query.exception()) is not None:
            raise TidingsError(f"the streaming query failed; Spark's log says why: {LOG_FILE}") from error

    def catch_up(self) -> None:
        """Wait until everything that has arrived is matched and told. Stopping before would make Spark complain."""
        try:
            self._query.processAllAvailable()
        finally:
            self.check()


@contextmanager
def live_matching(folder: Path, subscriptions: pa.Table, on_batch: OnBatch, work: Path) -> Iterator[LiveMatching]:
    """Match the JSON Lines files that appear in `folder` as long as the context lasts; `work` is for Spark's notes."""
    spark = session()
    posts = spark.readStream.schema(POSTS).json(str(folder))
    matches = match(posts, spark.createDataFrame(subscriptions.select(["id", "query"])))

    def tell(batch: DataFrame, number: int) -> None:
        found = batch.select("subscription_id", "post_id").toArrow()
        on_batch(list(zip(*(column.to_pylist() for column in found.columns), strict=True)))

    writer = matches.writeStream.foreachBatch(tell).option("checkpointLocation", str(work / "checkpoint"))
    query = writer.trigger(processingTime=_EVERY).start()
    with stopped_afterwards(spark):
        yield LiveMatching(query)
        query.stop()
