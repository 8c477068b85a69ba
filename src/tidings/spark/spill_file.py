"""Files of what a batch found: the worker that found it writes them, and the driver reads them in parts.

Through the JVM the same rows would be read, copied and written again, which costs as much as matching them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

WRITTEN = "written"  # the column that says how many rows a task wrote, in the one row that stands for all of them
_PART_BYTES, _PART_ROWS = 64 << 20, 100_000  # fewer parts: what is stored together lies together
_ROWS_AT_ONCE = 1_000
_SPARKS_OWN = ".parquet"


class KeptFile:
    """One file in a folder, with a name of its own. It has its name when it is whole; without rows there is none."""

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


def file_of_task(folder: str) -> KeptFile:
    """The file of the task that asks; a task that is run again finds the same, and replaces it."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("only a task has a file of its own")
    return KeptFile(Path(folder), f"{context.partitionId():05d}", context.taskAttemptId())


def kept_files(folder: Path) -> list[Path]:
    """In the order in which the posts came; those that Spark wrote itself lie one folder deeper."""
    return sorted([*folder.glob("part-*"), *folder.glob(f"*/part-*{_SPARKS_OWN}")])


def count_rows(files: Iterable[Path]) -> int:
    return sum(map(_rows, files))


def in_parts(files: Iterable[Path]) -> Iterator[pa.Table]:
    """All rows, in parts that fit into memory however many there are."""
    rows: list[pa.RecordBatch] = []
    for batch in (batch for file in files for batch in _batches(file)):
        if rows and (rows[0].schema != batch.schema or _is_full(rows)):
            yield pa.Table.from_batches(rows)
            rows = []
        rows.append(batch)
    if rows:
        yield pa.Table.from_batches(rows)


def _is_full(rows: list[pa.RecordBatch]) -> bool:
    return sum(map(len, rows)) >= _PART_ROWS or sum(one.nbytes for one in rows) >= _PART_BYTES


def _rows(file: Path) -> int:
    if file.suffix == _SPARKS_OWN:
        return int(pq.read_metadata(file).num_rows)
    return sum(map(len, _batches(file)))


def _batches(file: Path) -> Iterator[pa.RecordBatch]:
    if file.suffix == _SPARKS_OWN:
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(_ROWS_AT_ONCE)
        return
    with pa.memory_map(str(file)) as mapped:
        opened = pa.ipc.open_file(mapped)
        yield from map(opened.get_batch, range(opened.num_record_batches))
