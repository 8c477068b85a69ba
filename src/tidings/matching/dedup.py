"""Merge the hits of several matchers: they may find the same subscription if its conjunctions are on several shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.ragged import sorted_unique

_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


def hits_schema(subscription_type: pa.DataType) -> pa.Schema:
    """Return the schema of the hits of one matcher; `shared` marks those that other matchers may find as well."""
    return pa.schema([("post", pa.uint32()), ("subscription_id", subscription_type), ("shared", pa.bool_())])


_NO_HITS = hits_schema(pa.null())


def merge_hits(replies: Sequence[pa.RecordBatch], count: int) -> tuple[pa.Array, NDArray[np.uint32]]:
    """Return the subscriptions of `count` posts, each once per post, in the order of the posts, and the number of each.

    A reply has the hits of one matcher (`hits_schema`). Without replies the subscriptions have no type.
    """
    hits = drop_repeated(replies)
    if not len(hits):
        return hits["subscription_id"].combine_chunks(), np.zeros(count, np.uint32)
    return group_by_post(hits["post"].to_numpy(), pa.concat_arrays(hits["subscription_id"].chunks), count)


def drop_repeated(replies: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return the hits of all matchers without repetitions. The hits that were compared come last.

    Shared hits are compared if several matchers found something in the post. Posts are identified by their row in the
    batch, so two posts with the same id stay two posts.
    """
    hits = pa.Table.from_batches(replies, None if replies else _NO_HITS)
    is_shared = hits["shared"].to_numpy()
    if not is_shared.any():
        return hits
    posts = hits["post"].to_numpy()
    is_compared = is_shared & (_count_matchers(replies, int(posts.max()) + 1) > 1)[posts]
    compared = hits.filter(pa.array(is_compared)).combine_chunks()
    if not len(compared):
        return hits
    subscriptions = compared["subscription_id"].chunk(0).dictionary_encode()
    numbers = subscriptions.indices.to_numpy(zero_copy_only=False).astype(np.uint64)
    distinct = sorted_unique(compared["post"].to_numpy().astype(np.uint64) << _HALF | numbers)
    post, ids = (distinct >> _HALF).astype(np.uint32), subscriptions.dictionary.take(pa.array(distinct & _LOWER))
    unique = pa.table([pa.array(post), ids, pa.repeat(True, len(ids))], schema=hits.schema)
    return pa.concat_tables([hits.filter(pa.array(~is_compared)), unique])


def _count_matchers(replies: Sequence[pa.RecordBatch], posts: int) -> NDArray[np.uint16]:
    """Return for each post how many matchers found something in it."""
    counts = np.zeros(posts, np.uint16)
    for reply in replies:
        is_found = np.zeros(posts, bool)
        is_found[reply.column("post").to_numpy()] = True
        counts += is_found
    return counts


def group_by_post(posts: NDArray[np.uint32], ids: pa.Array, count: int) -> tuple[pa.Array, NDArray[np.uint32]]:
    """Return the ids in the order of their posts, and the number of ids of each of `count` posts."""
    keys = posts.astype(np.uint16) if count <= 1 << 16 else posts  # NumPy sorts short integers in linear time
    order = np.argsort(keys, kind="stable")
    return ids.take(pa.array(order)), np.bincount(posts, minlength=count).astype(np.uint32)
