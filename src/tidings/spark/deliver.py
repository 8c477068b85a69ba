"""Where matches go: into the store, into Parquet files, into a Kafka topic. Each knows how to be told twice."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidings.spark.kafka import KafkaTopic, kafka_failure, write_matches_kafka

Found = tuple[pa.Table, pa.Table]


class Delivery(Protocol):
    """What is done with the posts and matches of a batch before the batch is marked as done."""

    def deliver(self, stream: str, batch: int, version: int, posts: pa.Table, matches: pa.Table) -> Found:
        """Deliver them; what is left for the store to keep. A batch that is replayed comes again."""
        ...


class ToStore:
    """The store keeps them: exactly once."""

    def deliver(self, stream: str, batch: int, version: int, posts: pa.Table, matches: pa.Table) -> Found:
        return posts, matches


@dataclass(frozen=True, slots=True)
class ToParquet:
    """One file a batch, put in place whole; a batch that comes again replaces its file: exactly once."""

    folder: Path

    def deliver(self, stream: str, batch: int, version: int, posts: pa.Table, matches: pa.Table) -> Found:
        if len(matches):
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"matches-{stream[:8]}-{batch:010d}.parquet"
            partial = self.folder / f".{name}.partial"
            pq.write_table(match_rows(posts, matches, version), partial)
            os.replace(partial, self.folder / name)
        return posts.slice(0, 0), matches.slice(0, 0)


@dataclass(frozen=True, slots=True)
class ToKafka:
    """One message a match, at least once: who reads them tells repetitions by their key."""

    spark: SparkSession
    topic: KafkaTopic

    def deliver(self, stream: str, batch: int, version: int, posts: pa.Table, matches: pa.Table) -> Found:
        if len(matches):
            rows = self.spark.createDataFrame(match_rows(posts, matches, version))
            try:
                write_matches_kafka(rows, self.topic)
            except Exception as error:
                if (known := kafka_failure(error, self.topic)) is not None:
                    raise known from error
                raise
        return posts.slice(0, 0), matches.slice(0, 0)


def match_rows(posts: pa.Table, matches: pa.Table, version: int) -> pa.Table:
    """A row a match: the ids, the index version, and the post's fields."""
    wide = posts.take(matches["post_row"]).combine_chunks()
    columns = {"subscription_id": matches["subscription"], "post_id": wide["id"]}
    columns["index_version"] = pa.array([version] * len(matches), pa.int64())
    others = {name: wide[name] for name in wide.column_names if name != "id"}
    return pa.table({**columns, **others})
