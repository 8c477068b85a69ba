"""Collect the results of a batch, spill them to files if they are large, and commit them exactly once.

A small batch is committed in the foreground. A large one is first spilled and synced to disk; from then on it is safe,
so a thread commits it while the next batch is matched. The next start commits what a killed run spilled
(`recover_spilled`). Batches are committed in order, each in one transaction.

Files in the spill directory: `0000000007/part-*` are the rows of batch 7 and `0000000007.json` is its marker. A marker
with `stats` says that all rows are on disk; without `stats` it only pins the versions of a batch.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidings.atomic_io import fsync, write_durably
from tidings.errors import InputError
from tidings.failpoints import failpoint
from tidings.schemas import POST_FIELDS, SOURCE
from tidings.spark.spill import SPILLED_ROWS, SpillFile, count_rows, iter_chunks, list_spill_files
from tidings.store import BatchChunk, BatchPin, ShedCounts, Store
from tidings.store.columns import replace_invalid

ASYNC_COMMIT_ROWS = 20_000  # committing fewer rows takes less time than writing them to files first
_EXCERPT_CHARACTERS = 200
_UNSANITIZED = ("time", "author", "lang", "link")  # matching sanitizes the other text columns
_SPILL_BATCH_ROWS = 10_000
_LOCATED = "rejected-origin.arrow"
_SPARK_OUTPUT = "spark"  # directory of the files that Spark itself writes


class MatchChunks:
    """The results of a batch in chunks. Iterate as often as you like; every pass reads the tables again.

    `located` has rejected rows with file and line (`rejected_origin`). They replace those in the tables, in any order:
    both are the rejected rows of the batch. It is also saved in `spill_dir` if the tables are there.
    """

    def __init__(
        self,
        tables: Callable[[], Iterable[pa.Table]],
        rows: int,
        rejected: int = 0,
        spill_dir: Path | None = None,
        located: pa.Table | None = None,
    ) -> None:
        self.tables, self.rows, self.rejected, self.located = tables, rows, rejected, located
        self.spill_dir = spill_dir

    def set_located(self, located: pa.Table) -> None:
        self.located = located
        if self.spill_dir is not None:
            write_located(located, self.spill_dir)

    def __iter__(self) -> Iterator[BatchChunk]:
        chunks = map(split_chunk, self.tables())
        return chunks if self.located is None else _replace_rejected(chunks, self.located)


def _replace_rejected(chunks: Iterable[BatchChunk], located: pa.Table) -> Iterator[BatchChunk]:
    """Replace as many rejected rows as are located; the store keeps no more of a batch."""
    start = 0
    for chunk in chunks:
        count = len(chunk.rejected)
        rows = located.slice(start, count)
        start += count
        rest = chunk.rejected.slice(len(rows))
        yield chunk._replace(rejected=pa.concat_tables([rows, rest], promote_options="default"))


def collect_matches(rows: DataFrame, spill_dir: Path | None, spill_by_spark: bool = False) -> MatchChunks:
    """Run the batch and return its results, in memory or (with `spill_dir`) in files that all executors can write.

    `rows` come from `matched_posts`, which was given the same directory. With `spill_by_spark`, Spark also writes the
    rejected rows to files, because they may not fit into the memory of the driver.
    """
    if spill_dir is None:
        table = rows.toArrow()
        return MatchChunks(lambda: [table], table.num_rows, _count_valid(table["reason"]))
    shutil.rmtree(spill_dir, ignore_errors=True)
    spill_rejected = _spill_rejected_by_spark if spill_by_spark else _collect_rejected
    written, rejected = spill_rejected(rows, spill_dir)
    if written != (visible := count_rows(list_spill_files(spill_dir))):
        raise InputError(
            f"{spill_dir}: executors wrote {written:,} rows, but the driver sees {visible:,}. Put the state into a "
            "directory that all machines share."
        )
    files = list_spill_files(spill_dir)
    return MatchChunks(lambda: iter_chunks(files), written, rejected, spill_dir)


def spill(chunks: MatchChunks, spill_dir: Path) -> None:
    """Write the chunks to files unless they are there already, and sync the files to disk."""
    if not spill_dir.is_dir():
        spill_dir.mkdir(parents=True)
        for number, table in enumerate(chunks.tables()):
            _write_table(table, spill_dir, f"{number:05d}")
        if chunks.located is not None:
            write_located(chunks.located, spill_dir)
    files = list_spill_files(spill_dir)
    for path in (*files, *spill_dir.glob(_LOCATED), *{file.parent for file in files}, spill_dir, spill_dir.parent):
        fsync(path)


def read_spill(spill_dir: Path) -> MatchChunks:
    """Return the rows that were spilled to a directory."""
    files, file = list_spill_files(spill_dir), spill_dir / _LOCATED
    located = pa.ipc.open_file(file.read_bytes()).read_all() if file.exists() else None
    return MatchChunks(lambda: iter_chunks(files), count_rows(files), located=located)


def write_located(located: pa.Table, spill_dir: Path) -> None:
    """Save where rejected rows come from, next to the rows of their batch."""
    spill_dir.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(str(spill_dir / _LOCATED), located.schema) as file:
        file.write_table(located)


def _count_valid(column: pa.ChunkedArray) -> int:
    return len(column) - int(column.null_count)


def split_chunk(rows: pa.Table) -> BatchChunk:
    """Split rows of `matched_posts` into matched posts, their matches, and rejected rows."""
    rows = rows.combine_chunks()
    rejected, matched = rows.slice(0, 0), rows
    if rows["reason"].null_count < len(rows):
        is_rejected = pc.is_valid(rows["reason"])
        rejected, matched = rows.filter(is_rejected), rows.filter(pc.invert(is_rejected))
    lists = matched["subscriptions"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    matches = pa.table({"subscription": lists.flatten(), "post_row": pc.list_parent_indices(lists).cast(pa.int64())})
    excerpts = pc.utf8_slice_codeunits(replace_invalid(rejected["text"]), 0, _EXCERPT_CHARACTERS)
    source = {"source": rejected[SOURCE]} if SOURCE in rejected.column_names else {}
    columns = {**source, "reason": rejected["reason"], "excerpt": excerpts}
    return BatchChunk(_select_posts(matched), matches, pa.table(columns))


def _select_posts(rows: pa.Table) -> pa.Table:
    columns = {name: rows[name] for name in POST_FIELDS if name in rows.column_names}
    return pa.table(columns | {name: replace_invalid(columns[name]) for name in _UNSANITIZED if name in columns})


def _collect_rejected(rows: DataFrame, spill_dir: Path) -> tuple[int, int]:
    """Collect rejected rows through Spark into a file of their own; return the numbers of all and of rejected rows."""
    table = rows.toArrow()
    rejected = table.filter(pc.is_null(table[SPILLED_ROWS])).drop_columns([SPILLED_ROWS])
    _write_table(rejected, spill_dir, "rejected")
    return len(rejected) + (pc.sum(table[SPILLED_ROWS]).as_py() or 0), _count_valid(rejected["reason"])


def _spill_rejected_by_spark(rows: DataFrame, spill_dir: Path) -> tuple[int, int]:
    """Let Spark write rejected rows to files; return the numbers of all and of rejected rows."""
    observation, is_rejected = Observation(), F.col(SPILLED_ROWS).isNull()
    total = F.count_if(is_rejected) + F.coalesce(F.sum(SPILLED_ROWS), F.lit(0))
    observed = rows.observe(observation, total.alias("rows"), F.count("reason").alias("rejected"))
    observed.where(is_rejected).drop(SPILLED_ROWS).write.parquet(os.path.abspath(spill_dir / _SPARK_OUTPUT))
    return int(observation.get["rows"]), int(observation.get["rejected"])


def _write_table(table: pa.Table, spill_dir: Path, name: str) -> None:
    file = SpillFile(spill_dir, name)
    for batch in table.combine_chunks().to_batches(_SPILL_BATCH_ROWS):
        file.write(batch)
    file.close()


@dataclass(frozen=True, slots=True)
class BatchStart:
    """A batch, the versions that it uses, and its load-shedding decision (`load_shedding`)."""

    stream: str
    batch: int
    index_version: int
    plan_version: int
    shed: str = ""


@dataclass(frozen=True, slots=True)
class BatchStats:
    """What the ledger records besides the results: metrics, and shed work by matcher and by owner."""

    metrics: Mapping[str, object] = field(default_factory=dict)
    shed_by_matcher: Mapping[int, int] = field(default_factory=dict)
    shed_by_owner: Mapping[str, int] = field(default_factory=dict)

    def shed_counts(self) -> ShedCounts:
        by_matcher = {int(matcher): count for matcher, count in self.shed_by_matcher.items()}  # JSON has string keys
        return ShedCounts(by_matcher, dict(self.shed_by_owner))


class CommitQueue:
    """Commits batches to one store. Without `spill_dir` and `open_store` every commit is in the foreground.

    SQLite allows one writer. While a thread commits a batch, the start of the next batch is recorded in a marker file
    instead of the ledger; the ledger gets it when that batch is committed.
    """

    def __init__(
        self, store: Store, spill_dir: Path | None = None, open_store: Callable[[], Store] | None = None
    ) -> None:
        """`open_store` opens the same store again, for the thread that commits in the background."""
        self.store, self._spill_dir, self._open_store = store, spill_dir, open_store
        self._thread: threading.Thread | None = None
        self._marked_batch: int | None = None  # its start is in a marker file only
        self.error: Exception | None = None

    def begin(self, start: BatchStart) -> BatchPin:
        """Record the start of a batch; return the versions it must use, which a replayed batch began with."""
        if self._spill_dir is None or self._thread is None or not self._thread.is_alive():
            return self.store.batches.begin(**asdict(start))
        _write_marker(self._spill_dir, start, None)
        self._marked_batch = start.batch
        return BatchPin(start.index_version, start.plan_version, done=False, replay=False, shed=start.shed)

    def commit(self, start: BatchStart, stats: BatchStats, chunks: Iterable[BatchChunk]) -> None:
        """Commit the batch, or spill it and commit it in the background. Waits for the batch before.

        When this returns, the results are safe in either case.
        """
        self.wait()
        is_small = not isinstance(chunks, MatchChunks) or chunks.rows <= ASYNC_COMMIT_ROWS
        if self._spill_dir is None or self._open_store is None or is_small:
            self._commit(self.store, start, stats, chunks)
            return
        assert isinstance(chunks, MatchChunks)
        spill(chunks, _rows_dir(self._spill_dir, start.batch))
        _write_marker(self._spill_dir, start, stats)
        failpoint("after-spill", start.batch)
        self._thread = threading.Thread(target=self._commit_async, args=(start, stats, chunks), daemon=True)
        self._thread.start()

    def rows_dir(self, batch: int) -> Path | None:
        """Return where the rows of a batch may be spilled."""
        return None if self._spill_dir is None else _rows_dir(self._spill_dir, batch)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the background commit; raise its error."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self.error is not None:
            raise self.error

    def _commit_async(self, start: BatchStart, stats: BatchStats, chunks: MatchChunks) -> None:
        assert self._open_store is not None
        try:
            with self._open_store() as store:
                self._commit(store, start, stats, chunks)
        except Exception as error:
            self.error = error

    def _commit(self, store: Store, start: BatchStart, stats: BatchStats, chunks: Iterable[BatchChunk]) -> None:
        if self._marked_batch == start.batch:
            store.batches.begin(**asdict(start))
        _commit(store, start, stats, chunks)
        if self._spill_dir is not None:
            _delete_spill(self._spill_dir, start.batch)


def recover_spilled(store: Store, spill_dir: Path) -> None:
    """Commit the batches that a killed run spilled, and record the batches that it began."""
    for marker in sorted(spill_dir.glob("*.json")):
        try:
            _recover_batch(store, marker)
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise InputError(
                f"{marker}: the spilled results of this batch are damaged. Remove {spill_dir} and the checkpoint next "
                "to it and run again: all posts are read again, and no match is stored twice."
            ) from error
    shutil.rmtree(spill_dir, ignore_errors=True)  # rows without a marker belong to an unfinished batch


def _recover_batch(store: Store, marker: Path) -> None:
    content = json.loads(marker.read_text("utf-8"))
    start = BatchStart(**content["start"])
    store.batches.begin(**asdict(start))
    if content["stats"] is not None:
        _commit(store, start, BatchStats(**content["stats"]), read_spill(_rows_dir(marker.parent, start.batch)))
    _delete_spill(marker.parent, start.batch)


def _commit(store: Store, start: BatchStart, stats: BatchStats, chunks: Iterable[BatchChunk]) -> None:
    def before_commit() -> None:
        failpoint("after-write", start.batch)
        failpoint("before-commit", start.batch)

    failpoint("before-write", start.batch)
    store.batches.commit_chunks(start.stream, start.batch, chunks, stats.metrics, before_commit, stats.shed_counts())
    failpoint("after-commit", start.batch)


def _rows_dir(spill_dir: Path, batch: int) -> Path:
    return spill_dir / f"{batch:010d}"


def _write_marker(spill_dir: Path, start: BatchStart, stats: BatchStats | None) -> None:
    spill_dir.mkdir(parents=True, exist_ok=True)
    content = {"start": asdict(start), "stats": None if stats is None else asdict(stats)}
    write_durably(_rows_dir(spill_dir, start.batch).with_suffix(".json"), [json.dumps(content)])


def _delete_spill(spill_dir: Path, batch: int) -> None:
    """Delete the marker first: rows without a marker are ignored on recovery."""
    rows_dir = _rows_dir(spill_dir, batch)
    rows_dir.with_suffix(".json").unlink(missing_ok=True)
    shutil.rmtree(rows_dir, ignore_errors=True)
