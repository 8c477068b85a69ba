"""Whole columns in the binary formats of PostgreSQL: rows for COPY, arrays for parameters. No value becomes a Python
object on its way, and the server parses no text."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.adapt import Dumper
from psycopg.pq import Format

from tidings.store.database import Whole

INT8, INT2, TEXT, FLOAT8, INT8_ARRAY = 20, 21, 25, 701, 1016
_ARROW = {INT8: pa.int64(), INT2: pa.int16(), TEXT: pa.string(), FLOAT8: pa.float64()}
_BEFORE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_AFTER = struct.pack("!h", -1)
_NULL = struct.pack("!i", -1)
_PIECE_BYTES = 16 << 20


def copied(columns: pa.Table, oids: Mapping[str, int]) -> Iterator[bytes | memoryview]:
    """The rows as binary COPY takes them, in pieces; `oids` tells what the table's columns are."""
    fitting = columns.cast(pa.schema([(name, _ARROW[oids[name]]) for name in columns.column_names]))
    yield _BEFORE
    for batch in fitting.to_batches():
        yield from map(_rows, _pieces(batch))
    yield _AFTER


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of some bytes, or of one row where that is longer."""
    if batch.nbytes <= _PIECE_BYTES or batch.num_rows == 1:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))


def _rows(batch: pa.RecordBatch) -> memoryview:
    """Field after field of row after row: a length (-1 for NULL), then the value, most significant byte first."""
    count = pa.scalar(struct.pack("!h", batch.num_columns), pa.binary())
    fields = [part for column in batch.columns for part in _field(column)]
    joined = pc.binary_join_element_wise(count, *fields, b"")
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return memoryview(data)[ends[joined.offset] : ends[joined.offset + len(joined)]]


def _field(column: pa.Array) -> tuple[pa.Array, ...]:
    if pa.types.is_string(column.type):
        lengths = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
        return _bytes(lengths.astype(">i4")), pc.fill_null(column.cast(pa.binary()), b"")
    whole = _bytes(_sized(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)))
    return (pc.if_else(column.is_valid(), whole, pa.scalar(_NULL, pa.binary())) if column.null_count else whole,)


def _sized(values: np.ndarray) -> np.ndarray:
    """Each value with its length before it."""
    made = np.empty(len(values), [("length", ">i4"), ("value", values.dtype.newbyteorder(">"))])
    made["length"], made["value"] = values.dtype.itemsize, values
    return made


def _bytes(values: np.ndarray) -> pa.Array:
    """Numbers of any kind as they lie in memory, each as a binary value."""
    width = values.dtype.itemsize
    offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


class WholesDumper(Dumper):
    """numpy's whole numbers as a bigint[]."""

    format = Format.BINARY
    oid = INT8_ARRAY

    def dump(self, obj: Whole) -> bytes:
        if not len(obj):
            return struct.pack("!iii", 0, 0, INT8)
        header = struct.pack("!iiiii", 1, 0, INT8, len(obj), 1)
        return header + _sized(obj.astype(np.int64, copy=False)).tobytes()
