"""Find where the rejected rows of a batch come from, by reading its files again.

Carrying file and row with every post would cost every batch; rejected rows are rare. The same rows are rejected again,
so equal lines are distinguished by their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidings.ingest.row_lines import RowLines
from tidings.schemas import ORIGIN_FIELDS
from tidings.spark.post_columns import select_rejected
from tidings.spark.post_reader import local_path, one_split_per_partition, with_origin
from tidings.store.columns import MAX_REJECTED_PER_BATCH
from tidings.stream.file_source import PostDirectory, read_files

SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("source_row", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("excerpt", pa.string()),
    ]
)
LocateRejected = Callable[[SparkSession, Sequence[Path]], pa.Table]
_MANY_FILES = 32  # each is a task: of more files, those with rejected rows are found first


def locate_rejected(directory: PostDirectory, spark: SparkSession, files: Sequence[Path]) -> pa.Table:
    """Return the rejected rows of the files with `source` and `source_row`, in order; as many as the store keeps."""
    if len(files) > _MANY_FILES:
        names = _select(directory, spark, files).select(ORIGIN_FIELDS[0]).distinct().limit(MAX_REJECTED_PER_BATCH)
        files = [Path(local_path(row[0])) for row in names.collect()]
    if not files:
        return SCHEMA.empty_table()
    with one_split_per_partition(spark):
        rows = _select(directory, spark, files).limit(MAX_REJECTED_PER_BATCH).collect()
    lines, located = RowLines(directory.format), []
    for row in sorted(rows, key=lambda row: tuple(row[name] for name in ORIGIN_FIELDS)):
        file, split, number = (row[name] for name in ORIGIN_FIELDS)
        path = local_path(file)
        located.append((path, lines.line_of(Path(path), split, number), row["reason"], row["text"]))
    lines.close()
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, values, strict=True)) for values in located], SCHEMA)


def _select(directory: PostDirectory, spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    return select_rejected(with_origin(read_files(spark, directory, files), directory.format))
