"""Encode columns in PostgreSQL's binary formats: rows for COPY, arrays for parameters.

No value becomes a Python object, and the server parses no text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.adapt import Dumper
from psycopg.pq import Format

from tidings.store.database import Int64Array

INT8, INT2, TEXT, FLOAT8, INT8_ARRAY = 20, 21, 25, 701, 1016
_ARROW = {INT8: pa.int64(), INT2: pa.int16(), TEXT: pa.string(), FLOAT8: pa.float64()}
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_TRAILER = struct.pack("!h", -1)
_NULL = struct.pack("!i", -1)
_SLICE_BYTES = 16 << 20


def encode_copy(columns: pa.Table, oids: Mapping[str, int]) -> Iterator[bytes | memoryview]:
    """Yield rows for binary COPY, in slices; `oids` are the types of the table's columns."""
    typed = columns.cast(pa.schema([(name, _ARROW[oids[name]]) for name in columns.column_names]))
    yield _HEADER
    for batch in typed.to_batches():
        yield from map(_encode_rows, _split(batch))
    yield _TRAILER


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of at most `_SLICE_BYTES`, or of one row if that is larger."""
    if batch.nbytes <= _SLICE_BYTES or batch.num_rows == 1:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _split(batch.slice(0, half))
        yield from _split(batch.slice(half))


def _encode_rows(batch: pa.RecordBatch) -> memoryview:
    """Return the fields row by row: a length (-1 for NULL), then the value, big-endian."""
    count = pa.scalar(struct.pack("!h", batch.num_columns), pa.binary())
    fields = [part for column in batch.columns for part in _encode_column(column)]
    joined = pc.binary_join_element_wise(count, *fields, b"")
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return memoryview(data)[ends[joined.offset] : ends[joined.offset + len(joined)]]


def _encode_column(column: pa.Array) -> tuple[pa.Array, ...]:
    if pa.types.is_string(column.type):
        lengths = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
        return _to_binary(lengths.astype(">i4")), pc.fill_null(column.cast(pa.binary()), b"")
    fixed = _to_binary(_with_lengths(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)))
    return (pc.if_else(column.is_valid(), fixed, pa.scalar(_NULL, pa.binary())) if column.null_count else fixed,)


def _with_lengths(values: np.ndarray) -> np.ndarray:
    """Put the length before each value."""
    fields = np.empty(len(values), [("length", ">i4"), ("value", values.dtype.newbyteorder(">"))])
    fields["length"], fields["value"] = values.dtype.itemsize, values
    return fields


def _to_binary(values: np.ndarray) -> pa.Array:
    """Return the bytes of each number in memory as a binary value."""
    width = values.dtype.itemsize
    offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


class Int64ArrayDumper(Dumper):
    """Dump a numpy array of integers as bigint[]."""

    format = Format.BINARY
    oid = INT8_ARRAY

    def dump(self, obj: Int64Array) -> bytes:
        if not len(obj):
            return struct.pack("!iii", 0, 0, INT8)
        header = struct.pack("!iiiii", 1, 0, INT8, len(obj), 1)
        return header + _with_lengths(obj.astype(np.int64, copy=False)).tobytes()
