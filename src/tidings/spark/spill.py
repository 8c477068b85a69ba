"""Spill files: the worker that matches a batch writes its rows here, the driver reads them in chunks.

Through the JVM the same rows would be read, copied and written again, which costs as much as matching them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

SPILLED_ROWS = "spilled_rows"  # column of the one row that stands for all rows that a task wrote to its file
_CHUNK_BYTES, _CHUNK_ROWS = 64 << 20, 100_000  # large chunks: rows that are committed together are stored together
_PARQUET_BATCH_ROWS = 1_000
_PARQUET = ".parquet"


class SpillFile:
    """A spill file. It is renamed into place on close; no file is created for zero rows."""

    def __init__(self, folder: Path, name: str, attempt: int = 0) -> None:
        self._path = folder / f"part-{name}.arrow"
        self._partial = folder / f".{name}-{attempt}.partial"
        self._writer: pa.RecordBatchFileWriter | None = None
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._partial.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pa.ipc.new_file(str(self._partial), batch.schema)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            os.replace(self._partial, self._path)


def open_task_file(folder: str, suffix: str) -> SpillFile:
    """Return the spill file of the running Spark task. A repeated task replaces the file of its first attempt.

    Stages of a batch that both write need different suffixes.
    """
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("Spill file: no Spark task is running. Call this on a worker.")
    return SpillFile(Path(folder), f"{context.partitionId():05d}{suffix}", context.taskAttemptId())


def list_spill_files(folder: Path) -> list[Path]:
    """Return the spill files in the order of the posts. Files that Spark itself wrote are one level deeper."""
    return sorted([*folder.glob("part-*"), *folder.glob(f"*/part-*{_PARQUET}")])


def count_rows(files: Iterable[Path]) -> int:
    """Return the number of rows in all files."""
    return sum(map(_count_file_rows, files))


def iter_chunks(files: Iterable[Path]) -> Iterator[pa.Table]:
    """Yield all rows in tables that fit into memory. A table never mixes schemas."""
    batches: list[pa.RecordBatch] = []
    for batch in (batch for file in files for batch in _read_batches(file)):
        if batches and (batches[0].schema != batch.schema or _is_full(batches)):
            yield pa.Table.from_batches(batches)
            batches = []
        batches.append(batch)
    if batches:
        yield pa.Table.from_batches(batches)


def _is_full(batches: list[pa.RecordBatch]) -> bool:
    return sum(map(len, batches)) >= _CHUNK_ROWS or sum(batch.nbytes for batch in batches) >= _CHUNK_BYTES


def _count_file_rows(file: Path) -> int:
    if file.suffix == _PARQUET:
        return int(pq.read_metadata(file).num_rows)
    return sum(map(len, _read_batches(file)))


def _read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    if file.suffix == _PARQUET:
        with pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(_PARQUET_BATCH_ROWS)
        return
    with pa.memory_map(str(file)) as mapped:
        reader = pa.ipc.open_file(mapped)
        yield from map(reader.get_batch, range(reader.num_record_batches))
