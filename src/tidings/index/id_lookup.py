"""Finding subscriptions by their own id, of whatever type, without reading all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.text.vocabulary import hash_column


def id_order(ids: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """(the hashes of all ids in ascending order, the place of each): two arrays to search in."""
    hashes = _hashes(ids)
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.uint32)


def find_ids(
    wanted: pa.Array, ids: pa.Array, hashes: NDArray[np.uint64], order: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """The places in `ids` of those wanted ids that are there."""
    try:
        wanted = wanted.cast(ids.type).unique()
    except pa.ArrowInvalid:  # not even of that type, so none is there
        return np.zeros(0, np.int64)
    keys = _hashes(wanted)
    first, last = np.searchsorted(hashes, keys, "left"), np.searchsorted(hashes, keys, "right")
    counts = last - first
    asked = np.repeat(np.arange(len(keys)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places = order[np.repeat(first, counts) + within].astype(np.int64)
    same = pc.equal(ids.take(pa.array(places)), wanted.take(pa.array(asked)))
    return np.asarray(places[same.to_numpy(zero_copy_only=False)], np.int64)


def _hashes(ids: pa.Array) -> NDArray[np.uint64]:
    text = ids if pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type) else ids.cast(pa.large_string())
    return hash_column(text)
