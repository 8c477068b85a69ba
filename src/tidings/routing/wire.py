"""What travels between stages: one packed blob a (batch, matcher) instead of a row a (post, matcher)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.routing.router import Share
from tidings.text.analyzer import Received


@dataclass(frozen=True, slots=True)
class RoutedPosts:
    """Posts as a matcher gets them; `posts` are their places in the batch they came in, null if not sent."""

    posts: pa.Array
    ids: pa.Array
    received: Received
    positions: NDArray[np.float64]


def routed_schema(id_type: pa.DataType, terms: int, with_positions: bool, with_places: bool) -> pa.Schema:
    """The posts of one batch that one matcher must see, in as few bytes as the index allows.

    Positions matter to regions only, places in the batch only where hits are merged.
    """
    term = pa.uint16() if terms < 1 << 16 else pa.uint32()
    fields = [("post_id", id_type), ("terms", pa.list_(term))]
    fields += [("post", pa.uint32())] if with_places else []
    return pa.schema([*fields, ("lon", pa.float64()), ("lat", pa.float64())] if with_positions else fields)


def pack(share: Share, ids: pa.Array, positions: NDArray[np.float64], schema: pa.Schema) -> pa.Buffer:
    """A matcher's share of a batch as bytes."""
    posts = pa.array(share.posts)
    values = pa.array(share.terms.astype(schema.field("terms").type.value_type.to_pandas_dtype()))
    terms = pa.ListArray.from_arrays(pa.array(share.starts.view(np.int32)), values)
    columns = {"post_id": ids.take(posts), "terms": terms, "post": posts}
    if "lon" in schema.names:
        columns |= {"lon": pa.array(positions[share.posts, 0]), "lat": pa.array(positions[share.posts, 1])}
    return pa.record_batch([columns[name] for name in schema.names], schema=schema).serialize()


def unpack(blob: pa.Buffer, schema: pa.Schema) -> RoutedPosts:
    batch = pa.ipc.read_record_batch(blob, schema)
    listed = batch.column("terms")
    starts = np.asarray(listed.offsets).view(np.uint32)
    bounds = np.column_stack([starts[:-1], starts[1:]])
    positions = np.full((batch.num_rows, 2), np.nan)
    if "lon" in schema.names:
        positions = np.column_stack([np.asarray(batch.column("lon")), np.asarray(batch.column("lat"))])
    received = Received(np.asarray(listed.values).astype(np.uint32, copy=False), bounds)
    posts = batch.column("post") if "post" in schema.names else pa.nulls(batch.num_rows, pa.uint32())
    return RoutedPosts(posts, batch.column("post_id"), received, positions)
