"""Pack what is sent between the stages: arrays instead of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.correlate.partition.subset_counts import CountedSets
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_parser import ParsedTags
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tracker import Reports

_ROWS = pa.list_(pa.uint32())
_POSTS = pa.schema([("time", pa.int64()), ("tags", _ROWS)])
_SETS = pa.schema([("tags", _ROWS), ("weight", pa.int64())])
_OWNERS = pa.schema([("owners", pa.uint64())])
_REPORTS = pa.schema(
    [("end", pa.int64()), ("calculator", pa.uint8()), ("support", pa.int64()), ("union", pa.int64()), ("tags", _ROWS)]
)


def pack_posts(parsed: ParsedTags) -> tuple[bytes, pa.Buffer]:
    """Return the names, one per line, and the packed posts."""
    posts = parsed.posts
    return parsed.names, _pack(_POSTS, posts.times, _rows(posts.tags, posts.starts))


def unpack_posts(names: bytes, blob: pa.Buffer) -> ParsedTags:
    times, rows = _unpack(_POSTS, blob)
    return ParsedTags(TaggedPosts(np.asarray(times), *_flat(rows)), names)


def pack_owners(owners: NDArray[np.uint64]) -> bytes:
    """Pack the calculators of each tag, as bits."""
    packed: bytes = _pack(_OWNERS, owners).to_pybytes()
    return packed


def unpack_owners(blob: pa.Buffer) -> NDArray[np.uint64]:
    (owners,) = _unpack(_OWNERS, blob)
    return np.asarray(owners)


def pack_sets(sets: TagSets) -> pa.Buffer:
    return _pack(_SETS, _rows(sets.tags, sets.starts), sets.weights)


def unpack_sets(blob: pa.Buffer) -> TagSets:
    rows, weights = _unpack(_SETS, blob)
    return TagSets(*_flat(rows), np.asarray(weights))


def pack_notifications(notifications: Notifications) -> bytes:
    """Pack notifications as concatenated arrays, with runs of equal labels stored once: there are many of them."""
    labels = (notifications.now, notifications.panes, notifications.weights)
    is_first = np.ones(len(notifications), bool)
    is_first[1:] = np.logical_or.reduce([label[1:] != label[:-1] for label in labels])
    firsts = np.flatnonzero(is_first)
    sizes = np.array([len(firsts), len(notifications), len(notifications.tags)])
    times = np.diff(firsts, append=len(notifications))
    lengths = np.diff(notifications.starts).astype(np.uint8)
    arrays = (sizes, *(label[firsts] for label in labels), times, notifications.tags, lengths)
    return b"".join([array.data for array in arrays])


def unpack_notifications(calculator: int, plan: int, blob: bytes) -> Notifications:
    runs, rows, tags = np.frombuffer(blob, np.int64, 3).tolist()
    labels = np.frombuffer(blob, np.int64, 4 * runs, 24).reshape(4, runs)
    now, panes, weights = np.repeat(labels[:3], labels[3], axis=1)
    owned = np.frombuffer(blob, np.uint32, tags, 24 + 32 * runs)
    starts = np.zeros(rows + 1, np.uint64)
    np.cumsum(np.frombuffer(blob, np.uint8, rows, 24 + 32 * runs + 4 * tags), out=starts[1:])
    return Notifications(calculator, plan, now, panes, weights, owned, starts)


def pack_reports(reports: Reports) -> pa.Buffer:
    counted = reports.counted
    rows = _rows(counted.tags, counted.starts)
    return _pack(_REPORTS, reports.ends, reports.calculators, counted.support, counted.union, rows)


def unpack_reports(blob: pa.Buffer) -> Reports:
    ends, calculators, support, union, rows = _unpack(_REPORTS, blob)
    counted = CountedSets(*_flat(rows), np.asarray(support), np.asarray(union))
    return Reports(np.asarray(ends), np.asarray(calculators), counted)


def to_record_batch(reports: Reports, names: pa.Array, slide_us: int, panes: int) -> pa.RecordBatch:
    """Return reports as they are written to files: with timestamps, and tags by name."""
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
