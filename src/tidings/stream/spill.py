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

from tidings.atomic_io import sync
from tidings.errors import InputError
from tidings.schemas import POST_FIELDS
from tidings.spark.spill_file import WRITTEN, KeptFile, count_rows, in_parts, kept_files
from tidings.store import Found
from tidings.store.columns import clean

_EXCERPT = 200
_AS_THEY_CAME = ("time", "author", "lang", "link")
MUCH_BYTES = 4 << 20  # of input: what was found of less is here sooner than in files
LARGE_BYTES = 128 << 20  # of input: what Spark brings of so much comes to the driver in one piece
_PARQUET = (".parquet", ".pq")
_PACKED, _UNPACKED = (".gz", *_PARQUET), 8  # these hold about so many times their size
_ROWS_A_BATCH = 10_000
_SPARKS = "spark"  # the folder of the files that Spark writes itself


class Parts:
    """May be gone through more than once; every time they are made anew."""

    def __init__(self, tables: Callable[[], Iterable[pa.Table]], rows: int) -> None:
        self.tables, self.rows = tables, rows

    def __iter__(self) -> Iterator[Found]:
        return map(parted, self.tables())


def held_bytes(files: Iterable[Path]) -> int:
    """About what these files hold, once unpacked."""
    return sum(map(_held_bytes, files))


def _held_bytes(file: Path) -> int:
    """Parquet tells it."""
    if file.suffix in _PARQUET:
        with suppress(pa.ArrowException):  # Spark will tell what is wrong with it
            told = pq.read_metadata(file)
            return sum(told.row_group(number).total_byte_size for number in range(told.num_row_groups))
    return file.stat().st_size * (_UNPACKED if file.suffix in _PACKED else 1)


def gathered(found: DataFrame, folder: Path | None, in_pieces: bool = False) -> Parts:
    """Found now and held in memory; where a folder is given, in files there, which all executors must reach.

    `found` are rows of `wanted_posts`, which was given the same folder. With `in_pieces`, even what comes through Spark
    may be more than this process should hold.
    """
    if folder is None:
        table = found.toArrow()
        return Parts(lambda: [table], table.num_rows)
    shutil.rmtree(folder, ignore_errors=True)
    rows = _written(found, folder) if in_pieces else _brought(found, folder)
    if rows != (seen := count_rows(kept_files(folder))):
        raise InputError(
            f"{folder}: executors wrote {rows:,} rows there, of which {seen:,} are to be seen; the state must lie in a "
            "directory that is the same for all machines (docs/deploy.md)."
        )
    return kept(folder)


def keep(parts: Parts, folder: Path) -> None:
    """Have the parts on the disk, in files of this folder; where they are in files, it is these."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for number, table in enumerate(parts.tables()):
            _write(table, folder, f"{number:05d}")
    files = kept_files(folder)
    for path in (*files, *{file.parent for file in files}, folder, folder.parent):
        sync(path)


def kept(folder: Path) -> Parts:
    """What was kept there."""
    files = kept_files(folder)
    return Parts(lambda: in_parts(files), count_rows(files))


def _brought(found: DataFrame, folder: Path) -> int:
    """What comes through Spark comes here and into a file beside the others; how many rows there are in all."""
    table = found.toArrow()
    own = table.filter(pc.is_null(table[WRITTEN])).drop_columns([WRITTEN])
    _write(own, folder, "refused")
    return len(own) + (pc.sum(table[WRITTEN]).as_py() or 0)


def _written(found: DataFrame, folder: Path) -> int:
    """What comes through Spark is written by it, below the folder; how many rows there are in all."""
    seen = Observation()
    own = F.count_if(F.col(WRITTEN).isNull())
    counted = found.observe(seen, (own + F.coalesce(F.sum(WRITTEN), F.lit(0))).alias("rows"))
    counted.where(F.col(WRITTEN).isNull()).drop(WRITTEN).write.parquet(os.path.abspath(folder / _SPARKS))
    return int(seen.get["rows"])


def _write(table: pa.Table, folder: Path, name: str) -> None:
    file = KeptFile(folder, name)
    for batch in table.combine_chunks().to_batches(_ROWS_A_BATCH):
        file.write(batch)
    file.close()


def parted(found: pa.Table) -> Found:
    """Rows of `wanted_posts` as the posts that were found, who wants which of them, and the rows that were refused."""
    found = found.combine_chunks()
    bad, good = found.slice(0, 0), found
    if found["reason"].null_count < len(found):
        refused = pc.is_valid(found["reason"])
        bad, good = found.filter(refused), found.filter(pc.invert(refused))
    lists = good["subscriptions"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    matches = pa.table({"subscription": lists.flatten(), "post_row": pc.list_parent_indices(lists).cast(pa.int64())})
    excerpts = pc.utf8_slice_codeunits(clean(bad["text"]), 0, _EXCERPT)
    return Found(_posts(good), matches, pa.table({"reason": bad["reason"], "excerpt": excerpts}))


def _posts(rows: pa.Table) -> pa.Table:
    """The fields of posts; what may be no valid text yet is made so. The rest was, before it was matched."""
    columns = {name: rows[name] for name in POST_FIELDS if name in rows.column_names}
    return pa.table(columns | {name: clean(columns[name]) for name in _AS_THEY_CAME if name in columns})
