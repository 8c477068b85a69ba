"""Match posts that arrive as files with one streaming query, and report the matches of every batch."""

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
from tidings.spark.run_files import current_run_files
from tidings.spark.session import session
from tidings.spark.signals import owned_session

POSTS = "id bigint, time string, author string, text string, lat double, lon double, lang string"
_TRIGGER = "1 second"
OnBatch = Callable[[list[tuple[Any, Any]]], None]  # receives (subscription id, post id) of every match of a batch


class LiveQuery:
    """A running streaming query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def check(self) -> None:
        """Raise TidingsError if the query has failed."""
        if (error := self._query.exception()) is not None:
            log = current_run_files().log
            raise TidingsError(f"The streaming query failed. See the log of Spark: {log}") from error

    def process_all(self) -> None:
        """Wait until all posts that have arrived are matched and reported. Spark complains if stopped earlier."""
        try:
            self._query.processAllAvailable()
        finally:
            self.check()


@contextmanager
def live_query(folder: Path, subscriptions: pa.Table, on_batch: OnBatch, work: Path) -> Iterator[LiveQuery]:
    """Match JSON Lines files that appear in `folder` during the context. Spark keeps its state in `work`."""
    spark = session()
    posts = spark.readStream.schema(POSTS).json(str(folder))
    matches = match(posts, spark.createDataFrame(subscriptions.select(["id", "query"])))

    def report(batch: DataFrame, number: int) -> None:
        pairs = batch.select("subscription_id", "post_id").toArrow()
        on_batch(list(zip(*(column.to_pylist() for column in pairs.columns), strict=True)))

    writer = matches.writeStream.foreachBatch(report).option("checkpointLocation", str(work / "checkpoint"))
    query = writer.trigger(processingTime=_TRIGGER).start()
    with owned_session(spark):
        yield LiveQuery(query)
        query.stop()
