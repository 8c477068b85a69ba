"""What travels between stages, as Spark sees it: rows of labels and a blob."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

Batches = Iterator[pa.RecordBatch]
Stage = Callable[[Batches], Batches]


def labelled(blobs: list[pa.Buffer], **columns: pa.Array) -> pa.RecordBatch:
    """Labels and blobs side by side; every blob is copied once."""
    ends = np.cumsum([0, *(blob.size for blob in blobs)], dtype=np.int32)
    whole = pa.py_buffer(b"".join(blobs))
    column = pa.Array.from_buffers(pa.binary(), len(blobs), [None, pa.py_buffer(ends), whole])
    return pa.record_batch({**columns, "blob": column})


def each(batches: Batches) -> Iterator[tuple[Any, ...]]:
    """Row by row: the labels as Python values, the blob as a buffer that is not copied."""
    for batch in batches:
        *labels, blobs = batch.columns
        values = zip(*(label.to_pylist() for label in labels), strict=True)
        for row, label in enumerate(values):
            yield *label, blobs[row].as_buffer()


def first_batch_number() -> int:
    """Batches are numbered so that no two tasks use the same number."""
    context = TaskContext.get()
    return (context.partitionId() if context is not None else 0) << 32
