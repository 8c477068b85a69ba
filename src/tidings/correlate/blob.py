"""What travels between the stages: packed arrays instead of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.correlate.disseminator import Notifications
from tidings.correlate.parse import Parsed
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tracker import Reports
from tidings.partition.tags.sets import TagSets
from tidings.partition.tags.subsets import Counted

_ROWS = pa.list_(pa.uint32())
_POSTS = pa.schema([("time", pa.int64()), ("tags", _ROWS)])
_SETS = pa.schema([("tags", _ROWS), ("weight", pa.int64())])
_TOLD = pa.schema(
    [
        *((name, pa.list_(pa.int64())) for name in ("now", "pane", "weight", "times")),  # so many alike in a row
        ("lengths", pa.list_(pa.uint8())),
        ("tags", pa.list_(pa.uint32())),
    ]
)
_OWNERS = pa.schema([("owners", pa.uint64())])
_REPORTS = pa.schema(
    [("end", pa.int64()), ("calculator", pa.uint8()), ("support", pa.int64()), ("union", pa.int64()), ("tags", _ROWS)]
)


def pack_posts(parsed: Parsed) -> tuple[bytes, pa.Buffer]:
    """The names, a line each, and the posts."""
    posts = parsed.posts
    return b"\n".join(parsed.names), _pack(_POSTS, posts.times, _rows(posts.tags, posts.starts))


def unpack_posts(names: bytes, blob: pa.Buffer) -> Parsed:
    times, rows = _unpack(_POSTS, blob)
    return Parsed(TaggedPosts(np.asarray(times), *_flat(rows)), unpack_names(names))


def unpack_names(names: bytes) -> list[bytes]:
    return names.split(b"\n") if names else []


def buffer(blob: bytes) -> pa.Buffer:
    return pa.py_buffer(blob)


def pack_owners(names: list[bytes], owners: NDArray[np.uint64]) -> tuple[bytes, bytes]:
    """The names of tags, a line each, and the calculators of each, as bits."""
    return b"\n".join(names), _pack(_OWNERS, owners).to_pybytes()


def unpack_owners(names: bytes, blob: pa.Buffer) -> tuple[list[bytes], NDArray[np.uint64]]:
    (owners,) = _unpack(_OWNERS, blob)
    return unpack_names(names), np.asarray(owners)


def pack_sets(sets: TagSets) -> pa.Buffer:
    return _pack(_SETS, _rows(sets.tags, sets.starts), sets.weights)


def unpack_sets(blob: pa.Buffer) -> TagSets:
    rows, weights = _unpack(_SETS, blob)
    return TagSets(*_flat(rows), np.asarray(weights))


def pack_told(told: Notifications) -> pa.Buffer:
    """Small, as nearly all of it travels through Spark twice: what is alike in a row is said once."""
    labels = (told.now, told.panes, told.weights)
    is_first = np.ones(len(told), bool)
    is_first[1:] = np.logical_or.reduce([label[1:] != label[:-1] for label in labels])
    firsts = np.flatnonzero(is_first)
    times = np.diff(np.append(firsts, len(told)))
    columns = (*(label[firsts] for label in labels), times, np.diff(told.starts).astype(np.uint8), told.tags)
    return _pack(_TOLD, *(_rows(column, np.array([0, len(column)])) for column in columns))


def unpack_told(calculator: int, plan: int, blob: pa.Buffer) -> Notifications:
    now, panes, weights, times, lengths, tags = (np.asarray(column.values) for column in _unpack(_TOLD, blob))
    now, panes, weights = (np.repeat(label, times) for label in (now, panes, weights))
    starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
    aligned = np.require(tags, requirements="A")  # kernels ask for it, and a blob may begin anywhere
    return Notifications(calculator, plan, now, panes, weights, aligned, starts)


def pack_reports(reports: Reports) -> pa.Buffer:
    counted = reports.counted
    rows = _rows(counted.tags, counted.starts)
    return _pack(_REPORTS, reports.ends, reports.calculators, counted.support, counted.union, rows)


def unpack_reports(blob: pa.Buffer) -> Reports:
    ends, calculators, support, union, rows = _unpack(_REPORTS, blob)
    counted = Counted(*_flat(rows), np.asarray(support), np.asarray(union))
    return Reports(np.asarray(ends), np.asarray(calculators), counted)


def spelt(reports: Reports, names: pa.Array, slide_us: int, panes: int) -> pa.RecordBatch:
    """Reports as they are written: times as times, tags by name."""
    counted, stamp = reports.counted, pa.timestamp("us", "UTC")
    tags = pa.ListArray.from_arrays(
        pa.array(counted.starts.astype(np.int32)), names.take(pa.array(counted.tags.astype(np.int32)))
    )
    columns = {
        "window_start": pa.array((reports.ends - panes) * slide_us, stamp),
        "window_end": pa.array(reports.ends * slide_us, stamp),
        "tags": tags,
        "jaccard": pa.array(reports.jaccard),
        "support": pa.array(counted.support),
        "union": pa.array(counted.union),
        "calculator": pa.array(reports.calculators.astype(np.int32)),
    }
    return pa.record_batch(columns)


def _rows(tags: NDArray[np.generic], starts: NDArray[np.integer]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(tags))


def _flat(rows: pa.Array) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    return np.asarray(rows.values), np.asarray(rows.offsets).astype(np.uint64)


def _pack(schema: pa.Schema, *columns: NDArray[np.generic] | pa.Array) -> pa.Buffer:
    arrays = [pa.array(column, field.type) if isinstance(column, np.ndarray) else column
              for column, field in zip(columns, schema, strict=True)]  # fmt: skip
    return pa.record_batch(arrays, schema=schema).serialize()


def _unpack(schema: pa.Schema, blob: pa.Buffer) -> Sequence[pa.Array]:
    columns: Sequence[pa.Array] = pa.ipc.read_record_batch(blob, schema).columns
    return columns
