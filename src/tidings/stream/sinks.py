"""Where matches go: into the store, into Parquet files, into a Kafka topic. Each knows how to be told twice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidings.atomic_io import sync
from tidings.spark.kafka import KafkaTopic, kafka_failure, write_matches_kafka
from tidings.store import Found

_AT_ONCE_BYTES, _AT_ONCE = 64 << 20, 100_000  # of matches, each with its post


class Delivery(Protocol):
    """What is done with the posts and matches of a batch before the batch is marked as done."""

    def deliver(self, stream: str, batch: int, version: int, parts: Iterable[Found]) -> Iterable[Found]:
        """Deliver them; what is left for the store to keep. A batch that is replayed comes again."""
        ...


class ToStore:
    """The store keeps them: exactly once."""

    def deliver(self, stream: str, batch: int, version: int, parts: Iterable[Found]) -> Iterable[Found]:
        return parts


@dataclass(frozen=True, slots=True)
class ToParquet:
    """One file a batch, put in place whole; a batch that comes again replaces its file: exactly once."""

    folder: Path

    def deliver(self, stream: str, batch: int, version: int, parts: Iterable[Found]) -> Iterable[Found]:
        name = f"matches-{stream[:8]}-{batch:010d}.parquet"
        partial = self.folder / f".{name}.partial"
        if self._written(partial, parts, version):
            sync(partial)  # the store will say that the batch is done: then its file must be there, come what may
            os.replace(partial, self.folder / name)
            sync(self.folder)
        else:  # it may have come before with other subscriptions (--pin-anew)
            (self.folder / name).unlink(missing_ok=True)
        return map(_refused, parts)

    def _written(self, path: Path, parts: Iterable[Found], version: int) -> bool:
        """Write all matches; False, and no file, where there are none."""
        with ExitStack() as stack:
            writer: pq.ParquetWriter | None = None
            for rows in match_rows(parts, version):
                if writer is None:
                    self.folder.mkdir(parents=True, exist_ok=True)
                    writer = stack.enter_context(pq.ParquetWriter(path, rows.schema))
                writer.write_table(rows)
        return writer is not None


@dataclass(frozen=True, slots=True)
class ToKafka:
    """One message a match, at least once: who reads them tells repetitions by their key."""

    spark: SparkSession
    topic: KafkaTopic

    def deliver(self, stream: str, batch: int, version: int, parts: Iterable[Found]) -> Iterable[Found]:
        for rows in match_rows(parts, version):
            self._send(rows)
        return map(_refused, parts)

    def _send(self, rows: pa.Table) -> None:
        try:
            write_matches_kafka(self.spark.createDataFrame(rows), self.topic)
        except Exception as error:
            if (known := kafka_failure(error, self.topic)) is not None:
                raise known from error
            raise


def match_rows(parts: Iterable[Found], version: int) -> Iterator[pa.Table]:
    """A row a match, with the ids, the index version, and the post's fields; so many at once as memory has room for."""
    for posts, matches, _ in parts:
        post_bytes = posts.nbytes / max(1, len(posts))
        step = max(1, min(_AT_ONCE, int(_AT_ONCE_BYTES / max(1, post_bytes))))
        for start in range(0, len(matches), step):
            yield _with_posts(posts, matches.slice(start, step), version)


def _with_posts(posts: pa.Table, matches: pa.Table, version: int) -> pa.Table:
    wide = posts.take(matches["post_row"]).combine_chunks()
    columns = {"subscription_id": matches["subscription"], "post_id": wide["id"]}
    columns["index_version"] = pa.array([version] * len(matches), pa.int64())
    others = {name: wide[name] for name in wide.column_names if name != "id"}
    return pa.table({**columns, **others})


def _refused(part: Found) -> Found:
    """Of what was delivered, the store keeps what could not be used."""
    return Found(part.posts.slice(0, 0), part.matches.slice(0, 0), part.rejected)
