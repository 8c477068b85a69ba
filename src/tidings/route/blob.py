"""What travels between stages: one packed blob a (batch, matcher) instead of a row a (post, matcher)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.csr import take_rows
from tidings.receive.receiver import Received


def routed_schema(id_type: pa.DataType) -> pa.Schema:
    """The posts of one batch that one matcher must see."""
    return pa.schema(
        [
            ("post", pa.uint32()),
            ("post_id", id_type),
            ("terms", pa.list_(pa.uint32())),
            ("lon", pa.float64()),
            ("lat", pa.float64()),
        ]
    )


@dataclass(frozen=True, slots=True)
class RoutedPosts:
    """Posts as a matcher gets them; `posts` are their places in the batch they came in."""

    posts: pa.Array
    ids: pa.Array
    received: Received
    positions: NDArray[np.float64]


def pack(
    posts: NDArray[np.uint32], ids: pa.Array, received: Received, positions: NDArray[np.float64], schema: pa.Schema
) -> bytes:
    """The chosen posts of a batch as bytes."""
    bounds = received.bounds[posts]
    terms, starts = take_rows(received.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    place = pa.array(posts)
    columns = [
        place,
        ids.take(place),
        pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(terms)),
        pa.array(positions[posts, 0]),
        pa.array(positions[posts, 1]),
    ]
    return bytes(pa.record_batch(columns, schema=schema).serialize())


def unpack(blob: pa.Buffer, schema: pa.Schema) -> RoutedPosts:
    batch = pa.ipc.read_record_batch(blob, schema)
    listed = batch.column("terms")
    offsets = np.asarray(listed.offsets).astype(np.uint32)
    bounds = np.column_stack([offsets[:-1], offsets[1:]])
    positions = np.column_stack([np.asarray(batch.column("lon")), np.asarray(batch.column("lat"))])
    return RoutedPosts(
        batch.column("post"), batch.column("post_id"), Received(np.asarray(listed.values), bounds), positions
    )
