"""Find subscriptions by id, of any type, without reading all ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.text.vocabulary import hash_column


def id_order(ids: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return (the hashes of all ids, ascending; the row of each)."""
    hashes = _hashes(ids)
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.uint32)


def find_ids(
    sought: pa.Array, ids: pa.Array, hashes: NDArray[np.uint64], order: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Return the rows of `ids` that are among the sought ids."""
    try:
        sought = sought.cast(ids.type).unique()
    except pa.ArrowInvalid:  # ids of another type cannot occur
        return np.zeros(0, np.int64)
    keys = _hashes(sought)
    first, last = np.searchsorted(hashes, keys, "left"), np.searchsorted(hashes, keys, "right")
    counts = last - first
    which = np.repeat(np.arange(len(keys)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = order[np.repeat(first, counts) + within].astype(np.int64)
    same = pc.equal(ids.take(pa.array(rows)), sought.take(pa.array(which)))
    return np.asarray(rows[same.to_numpy(zero_copy_only=False)], np.int64)


def _hashes(ids: pa.Array) -> NDArray[np.uint64]:
    text = ids if pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type) else ids.cast(pa.large_string())
    return hash_column(text)
