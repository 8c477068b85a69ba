"""What a batch found, in parts that fit into memory however large the batch is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidings.disk import sync
from tidings.errors import InputError
from tidings.model import POST_FIELDS
from tidings.store import Found

_EXCERPT = 200
_LARGE_BYTES = 128 << 20  # of input: what was found of so much comes to the driver in one piece
_PARQUET = (".parquet", ".pq")
_PACKED, _UNPACKED = (".gz", *_PARQUET), 8  # these hold about so many times their size
_PART_BYTES, _PART_ROWS = 32 << 20, 50_000
_ROWS_AT_ONCE = 1_000


class Parts:
    """May be gone through more than once; every time they are made anew."""

    def __init__(self, tables: Callable[[], Iterable[pa.Table]], rows: int) -> None:
        self.tables, self.rows = tables, rows

    def __iter__(self) -> Iterator[Found]:
        return map(parted, self.tables())


def is_large(files: Iterable[Path]) -> bool:
    """Whether what is found in these files may be more than the driver should hold."""
    return sum(map(_held_bytes, files)) > _LARGE_BYTES


def _held_bytes(file: Path) -> int:
    """About what a file holds; Parquet tells it."""
    if file.suffix in _PARQUET:
        with suppress(pa.ArrowException):  # Spark will tell what is wrong with it
            told = pq.read_metadata(file)
            return sum(told.row_group(number).total_byte_size for number in range(told.num_row_groups))
    return file.stat().st_size * (_UNPACKED if file.suffix in _PACKED else 1)


def gathered(found: DataFrame, folder: Path | None) -> Parts:
    """Found now and held in memory; where a folder is given, in files there, which all executors must reach."""
    if folder is None:
        table = found.toArrow()
        return Parts(lambda: [table], table.num_rows)
    shutil.rmtree(folder, ignore_errors=True)
    _write(found, folder)
    return kept(folder)


def keep(parts: Parts, folder: Path) -> None:
    """Have the parts on the disk, in files of this folder; where they are in files, it is these."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for number, table in enumerate(parts.tables()):
            pq.write_table(table, folder / f"part-{number:05d}.parquet", compression="none", use_dictionary=False)
    for path in (*_files(folder), folder, folder.parent):
        sync(path)


def kept(folder: Path) -> Parts:
    """What was kept there."""
    return Parts(lambda: _in_files(folder), _rows(folder))


def _write(found: DataFrame, folder: Path) -> None:
    """Rows that executors wrote and we do not see (their disk is another, or a share that lags) are an error."""
    written = Observation()
    counted = found.observe(written, F.count(F.lit(1)).alias("rows"))
    counted.write.parquet(os.path.abspath(folder))
    if (rows := written.get["rows"]) != (seen := _rows(folder)):
        raise InputError(
            f"{folder}: executors wrote {rows:,} rows there, of which {seen:,} are to be seen; the state must lie in a "
            "directory that is the same for all machines (docs/deploy.md)."
        )


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in _files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def _in_files(folder: Path) -> Iterator[pa.Table]:
    """In the order in which the posts came."""
    for file in _files(folder):
        rows: list[pa.RecordBatch] = []
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_ROWS_AT_ONCE):
                rows.append(batch)
                if len(rows) * _ROWS_AT_ONCE >= _PART_ROWS or sum(one.nbytes for one in rows) >= _PART_BYTES:
                    yield pa.Table.from_batches(rows)
                    rows = []
        if rows:
            yield pa.Table.from_batches(rows)


def parted(found: pa.Table) -> Found:
    """Rows of `wanted_posts` as the posts that were found, who wants which of them, and the rows that were refused."""
    found = found.combine_chunks()
    refused = pc.is_valid(found["reason"])
    bad, good = found.filter(refused), found.filter(pc.invert(refused))
    lists = good["subscriptions"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    matches = pa.table({"subscription": lists.flatten(), "post_row": pc.list_parent_indices(lists).cast(pa.int64())})
    rejected = pa.table({"reason": bad["reason"], "excerpt": pc.utf8_slice_codeunits(bad["text"], 0, _EXCERPT)})
    return Found(good.select([name for name in POST_FIELDS if name in good.column_names]), matches, rejected)
