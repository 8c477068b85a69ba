"""What a batch found, in parts that fit into memory however large the batch is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidings.errors import InputError
from tidings.model import POST_FIELDS
from tidings.store import Found

_EXCERPT = 200
_LARGE_BYTES = 128 << 20  # of input: what was found of so much comes to the driver in one piece
_PACKED, _UNPACKED = (".gz", ".parquet", ".pq"), 8  # these hold about so many times their size
_PART_BYTES, _PART_ROWS = 32 << 20, 50_000
_ROWS_AT_ONCE = 1_000


class Parts:
    """May be gone through more than once; every time they are made anew."""

    def __init__(self, tables: Callable[[], Iterable[pa.Table]]) -> None:
        self._tables = tables

    def __iter__(self) -> Iterator[Found]:
        return map(parted, self._tables())


def is_large(files: Iterable[Path]) -> bool:
    """Whether what is found in these files may be more than the driver should hold."""
    return sum(file.stat().st_size * (_UNPACKED if file.suffix in _PACKED else 1) for file in files) > _LARGE_BYTES


@contextmanager
def in_parts(found: DataFrame, spool: Path | None) -> Iterator[Parts]:
    """Found now and held in memory; where a `spool` is given, in files there, which all executors must reach."""
    if spool is None:
        table = found.toArrow()
        yield Parts(lambda: [table])
        return
    forget(spool)
    try:
        _write(found, spool)
        yield Parts(lambda: _spooled(spool))
    finally:
        forget(spool)


def forget(spool: Path) -> None:
    """Remove what a run has left there that was killed."""
    shutil.rmtree(spool, ignore_errors=True)


def _write(found: DataFrame, spool: Path) -> None:
    """Rows that executors wrote and we do not see (their disk is another, or a share that lags) are an error."""
    written = Observation()
    counted = found.observe(written, F.count(F.lit(1)).alias("rows"))
    counted.write.parquet(os.path.abspath(spool))
    if (rows := written.get["rows"]) != (seen := _rows(spool)):
        raise InputError(
            f"{spool}: executors wrote {rows:,} rows there, of which {seen:,} are to be seen; the state must lie in a "
            "directory that is the same for all machines (docs/deploy.md)."
        )


def _rows(spool: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in _files(spool))


def _files(spool: Path) -> list[Path]:
    return sorted(spool.glob("part-*.parquet"))


def _spooled(spool: Path) -> Iterator[pa.Table]:
    """In the order in which the posts came."""
    for file in _files(spool):
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
