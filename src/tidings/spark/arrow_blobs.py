"""Rows that travel between stages: label columns and one blob column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

ArrowBatches = Iterator[pa.RecordBatch]
Stage = Callable[[ArrowBatches], ArrowBatches]
Part = TypeVar("Part")


def blob_batch(blobs: Sequence[pa.Buffer], **columns: pa.Array) -> pa.RecordBatch:
    """Build a batch of labels and blobs. Every blob is copied once."""
    ends = np.cumsum([0, *(blob.size for blob in blobs)], dtype=np.int32)
    data = pa.py_buffer(b"".join(blobs))
    column = pa.Array.from_buffers(pa.binary(), len(blobs), [None, pa.py_buffer(ends), data])
    return pa.record_batch({**columns, "blob": column})


def iter_blobs(batches: ArrowBatches) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows: labels as Python values, then the blob as a buffer, not copied."""
    for batch in batches:
        *labels, blobs = batch.columns
        values = zip(*(label.to_pylist() for label in labels), strict=True)
        for row, label in enumerate(values):
            yield *label, blobs[row].as_buffer()


def group_by_size(parts: Iterable[Part], size: Callable[[Part], int], limit: int) -> Iterator[list[Part]]:
    """Group parts until they reach the limit: every batch that Python sends to the JVM has a fixed cost."""
    group, total = [], 0
    for part in parts:
        group.append(part)
        total += size(part)
        if total >= limit:
            yield group
            group, total = [], 0
    if group:
        yield group


def write_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """Serialize a batch with its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def read_stream(blob: pa.Buffer) -> pa.RecordBatch:
    """Return the batch of `write_stream`."""
    return pa.ipc.open_stream(blob).read_next_batch()


def join_blobs(first: pa.Buffer, second: pa.Buffer) -> pa.Buffer:
    """Return two blobs as one."""
    return pa.py_buffer(b"".join([first.size.to_bytes(8, "little"), first, second]))


def split_blob(blob: pa.Buffer) -> tuple[pa.Buffer, pa.Buffer]:
    """Return the two blobs of `join_blobs`."""
    size = int.from_bytes(blob.slice(0, 8).to_pybytes(), "little")
    return blob.slice(8, size), blob.slice(8 + size)


def first_batch_number() -> int:
    """Return the first batch number of this task. No two tasks use the same numbers."""
    context = TaskContext.get()
    return (context.partitionId() if context is not None else 0) << 32
