"""The last stage of a stored batch, the same in both modes: write matched posts as rows or to spill files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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


WriteResults = Callable[[Iterator[MatchedBatch]], ArrowBatches]


def choose_writer(folder: Path | None) -> WriteResults:
    """Return the writer of spill files in a folder, or of rows without one."""
    return write_rows if folder is None else partial(write_files, str(folder.absolute()))


def write_rows(results: Iterator[MatchedBatch]) -> ArrowBatches:
    """Yield matched posts with the list of their `subscriptions`, and rejected ones with an empty list."""
    for result in results:
        yield from split_batches(with_subscription_lists(result.posts, result.ids, result.counts, result.rejected))


def write_files(folder: str, results: Iterator[MatchedBatch]) -> ArrowBatches:
    """Like `write_rows`, but write matched posts to a file and yield one row with their number."""
    file, rejected_rows = open_task_file(folder), None
    for result in results:
        rows = with_subscription_lists(result.posts, result.ids, result.counts, result.rejected[:0])
        file.write(rows.append_column("reason", pa.nulls(rows.num_rows, pa.string())))
        no_matches = (result.ids[:0], np.zeros_like(result.counts))
        rejected_rows = with_subscription_lists(result.posts, *no_matches, result.rejected)
        if rejected_rows.num_rows:
            yield rejected_rows.append_column(SPILLED_ROWS, pa.nulls(rejected_rows.num_rows, pa.int64()))
    file.close()
    if file.rows:
        assert rejected_rows is not None
        nulls = (pa.nulls(1, kind) for kind in rejected_rows.schema.types)
        yield pa.record_batch([*nulls, pa.array([file.rows])], [*rejected_rows.schema.names, SPILLED_ROWS])


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
