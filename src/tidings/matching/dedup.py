"""Merge the hits of several matchers: they may find the same subscription if its conjunctions are on several shards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.ragged import sorted_unique

_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


def hits_schema(subscription_type: pa.DataType) -> pa.Schema:
    """Return the schema of the hits of one matcher; `shared` marks those that other matchers may find as well."""
    return pa.schema([("post", pa.uint32()), ("subscription_id", subscription_type), ("shared", pa.bool_())])


def drop_repeated(hits: pa.Table) -> pa.Table:
    """Return the hits of a batch without repetitions. Only shared hits are compared; they come last.

    Posts are identified by their row in the batch, so two posts with the same id stay two posts.
    """
    shared = hits.filter(hits["shared"]).combine_chunks()
    if not len(shared):
        return hits
    subscriptions = shared["subscription_id"].chunk(0).dictionary_encode()
    numbers = subscriptions.indices.to_numpy(zero_copy_only=False).astype(np.uint64)
    distinct = sorted_unique(shared["post"].to_numpy().astype(np.uint64) << _HALF | numbers)
    posts, ids = (distinct >> _HALF).astype(np.uint32), subscriptions.dictionary.take(pa.array(distinct & _LOWER))
    unique = pa.table([pa.array(posts), ids, pa.repeat(True, len(ids))], schema=hits.schema)
    return pa.concat_tables([hits.filter(pc.invert(hits["shared"])), unique])


def group_by_post(posts: NDArray[np.uint32], ids: pa.Array, count: int) -> tuple[pa.Array, NDArray[np.uint32]]:
    """Return the ids in the order of their posts, and the number of ids of each of `count` posts."""
    keys = posts.astype(np.uint16) if count <= 1 << 16 else posts  # NumPy sorts short integers in linear time
    order = np.argsort(keys, kind="stable")
    return ids.take(pa.array(order)), np.bincount(posts, minlength=count).astype(np.uint32)
