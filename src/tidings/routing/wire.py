"""Wire format between routing and matching: one packed blob per (batch, matcher), not one row per (post, matcher)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.routing.router import MatcherBatch
from tidings.text.analyzer import AnalyzedBatch


@dataclass(frozen=True, slots=True)
class RoutedPosts:
    """Posts as a matcher receives them: their rows in the batch and their ids, each null if not sent."""

    posts: pa.Array
    ids: pa.Array
    analyzed: AnalyzedBatch
    positions: NDArray[np.float64]


def routed_schema(id_type: pa.DataType | None, terms: int, with_positions: bool, with_rows: bool) -> pa.Schema:
    """Return the schema of a blob, with the smallest types that the index allows.

    Positions are needed for regions only, rows only where hits are merged, ids (None: not sent) only in matches.
    """
    term = pa.uint16() if terms < 1 << 15 else pa.uint32()  # one bit is for `COMPANION`
    fields = [("terms", pa.list_(term))]
    fields += [("post_id", id_type)] if id_type is not None else []
    fields += [("post", pa.uint32())] if with_rows else []
    return pa.schema([*fields, ("lon", pa.float64()), ("lat", pa.float64())] if with_positions else fields)


def pack(routed: MatcherBatch, ids: pa.Array, positions: NDArray[np.float64], schema: pa.Schema) -> pa.Buffer:
    """Serialize the posts of one matcher."""
    posts = pa.array(routed.posts)
    values = pa.array(_narrow(routed.terms) if schema.field("terms").type.value_type == pa.uint16() else routed.terms)
    terms = pa.ListArray.from_arrays(pa.array(routed.starts.view(np.int32)), values)
    columns = {"terms": terms, "post": posts}
    columns |= {"post_id": ids.take(posts)} if "post_id" in schema.names else {}
    if "lon" in schema.names:
        columns |= {"lon": pa.array(positions[routed.posts, 0]), "lat": pa.array(positions[routed.posts, 1])}
    return pa.record_batch([columns[name] for name in schema.names], schema=schema).serialize()


def unpack(blob: pa.Buffer, schema: pa.Schema) -> RoutedPosts:
    batch = pa.ipc.read_record_batch(blob, schema)
    lists = batch.column("terms")
    starts = np.asarray(lists.offsets).view(np.uint32)
    bounds = np.column_stack([starts[:-1], starts[1:]])
    positions = np.full((batch.num_rows, 2), np.nan)
    if "lon" in schema.names:
        positions = np.column_stack([np.asarray(batch.column("lon")), np.asarray(batch.column("lat"))])
    terms = np.asarray(lists.values)
    analyzed = AnalyzedBatch(_widen(terms) if terms.dtype == np.uint16 else terms, bounds)
    posts = batch.column("post") if "post" in schema.names else pa.nulls(batch.num_rows, pa.uint32())
    ids = batch.column("post_id") if "post_id" in schema.names else pa.nulls(batch.num_rows)
    return RoutedPosts(posts, ids, analyzed, positions)


def _narrow(terms: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return terms below 2^15, and the flag in the highest bit."""
    return (terms >> 16 | terms).astype(np.uint16)


def _widen(terms: NDArray[np.uint16]) -> NDArray[np.uint32]:
    wide = terms.astype(np.uint32)
    return (wide & np.uint32(0x8000)) << np.uint32(16) | wide & np.uint32(0x7FFF)
