"""Sinks for matches: store, Parquet, Kafka. Every sink tolerates a replayed batch."""

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

from tidings.atomic_io import fsync
from tidings.private_files import make_result_folder, publish_permissions
from tidings.spark.kafka import KAFKA_SCHEME, KafkaTopic, parse_kafka_url, translate_kafka_error, write_matches_kafka
from tidings.store import BatchChunk

_TABLE_BYTES, _TABLE_ROWS = 64 << 20, 100_000  # of matches, each with its post


class MatchSink(Protocol):
    """Receives the results of a batch before the batch is committed."""

    def write(self, stream: str, batch: int, index_version: int, chunks: Iterable[BatchChunk]) -> Iterable[BatchChunk]:
        """Write the matches; return what the store still has to commit. A replayed batch is written again."""
        ...


def open_sink(url: str, spark: SparkSession) -> MatchSink:
    """Return the sink for `store`, a kafka:// URL or a directory."""
    if url == "store":
        return StoreSink()
    return KafkaSink(spark, parse_kafka_url(url)) if url.startswith(KAFKA_SCHEME) else ParquetSink(Path(url))


class StoreSink:
    """Leaves everything to the store: exactly once."""

    def write(self, stream: str, batch: int, index_version: int, chunks: Iterable[BatchChunk]) -> Iterable[BatchChunk]:
        return chunks


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """Writes one file per batch and renames it into place; a replayed batch replaces its file: exactly once."""

    folder: Path

    def write(self, stream: str, batch: int, index_version: int, chunks: Iterable[BatchChunk]) -> Iterable[BatchChunk]:
        name = f"matches-{stream[:8]}-{batch:010d}.parquet"
        partial = self.folder / f".{name}.partial"
        if self._write_file(partial, chunks, index_version):
            publish_permissions(partial)
            fsync(partial)  # the file must survive a power failure once the batch is committed
            os.replace(partial, self.folder / name)
            fsync(self.folder)
        else:  # a first run with other subscriptions may have written matches (--repin-lost-versions)
            (self.folder / name).unlink(missing_ok=True)
        return map(_without_matches, chunks)

    def _write_file(self, path: Path, chunks: Iterable[BatchChunk], index_version: int) -> bool:
        """Write all matches; return False, without a file, for zero matches."""
        with ExitStack() as stack:
            writer: pq.ParquetWriter | None = None
            for rows in match_rows(chunks, index_version):
                if writer is None:
                    make_result_folder(self.folder)
                    writer = stack.enter_context(pq.ParquetWriter(path, rows.schema))
                writer.write_table(rows)
        return writer is not None


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """Sends one message per match, at least once; consumers detect repetitions by the key."""

    spark: SparkSession
    topic: KafkaTopic

    def write(self, stream: str, batch: int, index_version: int, chunks: Iterable[BatchChunk]) -> Iterable[BatchChunk]:
        for rows in match_rows(chunks, index_version):
            self._send(rows)
        return map(_without_matches, chunks)

    def _send(self, rows: pa.Table) -> None:
        try:
            write_matches_kafka(self.spark.createDataFrame(rows), self.topic)
        except Exception as error:
            if (user_error := translate_kafka_error(error, self.topic)) is not None:
                raise user_error from error
            raise


def match_rows(chunks: Iterable[BatchChunk], index_version: int) -> Iterator[pa.Table]:
    """Yield tables of matches with their ids, the index version and the post; each table fits into memory."""
    for posts, matches, *_ in chunks:
        post_bytes = posts.nbytes / max(1, len(posts))
        step = max(1, min(_TABLE_ROWS, int(_TABLE_BYTES / max(1, post_bytes))))
        for start in range(0, len(matches), step):
            yield _join_posts(posts, matches.slice(start, step), index_version)


def _join_posts(posts: pa.Table, matches: pa.Table, index_version: int) -> pa.Table:
    joined = posts.take(matches["post_row"]).combine_chunks()
    columns = {"subscription_id": matches["subscription"], "post_id": joined["id"]}
    columns["index_version"] = pa.array([index_version] * len(matches), pa.int64())
    fields = {name: joined[name] for name in joined.column_names if name != "id"}
    return pa.table({**columns, **fields})


def _without_matches(chunk: BatchChunk) -> BatchChunk:
    """Return only the rejected rows, which the store has with every sink, and the numbers for its ledger."""
    posts, matches = len(chunk.posts), len(chunk.matches)
    return BatchChunk(chunk.posts.slice(0, 0), chunk.matches.slice(0, 0), chunk.rejected, posts, matches)
