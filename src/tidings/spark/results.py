"""The last stage of a stored batch, the same in both modes: write matched posts as rows or to spill files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.spark.arrow_blobs import ArrowBatches
from tidings.spark.spill import SPILLED_ROWS, open_task_file

BATCH_MATCHES = 1 << 15  # fits into the cache of a core


@dataclass(frozen=True, slots=True)
class MatchedBatch:
    """Posts with all fields, the ids of their subscriptions in the order of the posts, the number per post."""

    posts: pa.RecordBatch
    ids: pa.Array
    counts: NDArray[np.uint32]
    rejected: NDArray[np.intp]


class ResultWriter(Protocol):
    """Writes the results of one task; `finish` is called once, after the last batch."""

    def write(self, result: MatchedBatch) -> ArrowBatches: ...

    def finish(self) -> ArrowBatches: ...


OpenWriter = Callable[[], ResultWriter]


def choose_writer(folder: Path | None, suffix: str = "") -> OpenWriter:
    """Return the writer of spill files in a folder, or of rows without one."""
    return RowWriter if folder is None else partial(FileWriter, str(folder.absolute()), suffix)


def write_all(writer: ResultWriter, results: Iterator[MatchedBatch]) -> ArrowBatches:
    for result in results:
        yield from writer.write(result)
    yield from writer.finish()


class RowWriter:
    """Yields matched posts with the list of their `subscriptions`, and rejected ones with an empty list."""

    def write(self, result: MatchedBatch) -> ArrowBatches:
        yield from split_batches(with_subscription_lists(result.posts, result.ids, result.counts, result.rejected))

    def finish(self) -> ArrowBatches:
        yield from ()


class FileWriter:
    """Writes matched posts to a file of the running task; yields rejected posts, and a row with the number of rows."""

    def __init__(self, folder: str, suffix: str) -> None:
        self._file = open_task_file(folder, suffix)
        self._schema: pa.Schema | None = None

    def write(self, result: MatchedBatch) -> ArrowBatches:
        rows = with_subscription_lists(result.posts, result.ids, result.counts, result.rejected[:0])
        self._schema = rows.schema
        self._file.write(rows.append_column("reason", pa.nulls(rows.num_rows, pa.string())))
        if len(result.rejected):
            no_matches = (result.ids[:0], np.zeros_like(result.counts))
            rejected = with_subscription_lists(result.posts, *no_matches, result.rejected)
            yield rejected.append_column(SPILLED_ROWS, pa.nulls(rejected.num_rows, pa.int64()))

    def finish(self) -> ArrowBatches:
        self._file.close()
        if self._schema is not None and self._file.rows:
            nulls = (pa.nulls(1, kind) for kind in self._schema.types)
            yield pa.record_batch([*nulls, pa.array([self._file.rows])], [*self._schema.names, SPILLED_ROWS])


def with_subscription_lists(
    posts: pa.RecordBatch, ids: pa.Array, counts: NDArray[np.uint32], rejected: NDArray[np.intp]
) -> pa.RecordBatch:
    """Select matched posts, each with the list of its subscriptions, and rejected posts with an empty list."""
    is_kept = counts > 0
    is_kept[rejected] = True
    starts = np.concatenate([[0], np.cumsum(counts[is_kept])]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), ids)
    rows = posts if is_kept.all() else posts.filter(pa.array(is_kept))
    return pa.record_batch([*rows.columns, lists], [*rows.schema.names, "subscriptions"])


def split_batches(rows: pa.RecordBatch) -> ArrowBatches:
    """Split rows with lists of `subscriptions` into batches that fit into the cache of a core."""
    offsets = rows.column("subscriptions").offsets.to_numpy()
    cuts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], BATCH_MATCHES))
    for start, end in itertools.pairwise(np.unique([0, *cuts, rows.num_rows]).tolist()):
        yield rows.slice(start, end - start)
