"""Of a batch, the posts that were hit, each id once, and the matches, each pair once. No database is touched here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.store.columns import MAX_ID_BYTES, clean, id_kind, post_columns
from tidings.store.database import Whole

_TOO_LONG = f"id longer than {MAX_ID_BYTES:,} bytes"


class Hits(NamedTuple):
    """Matches side by side: subscription, and the post as its place."""

    subscriptions: Whole
    places: Whole

    def where(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Hits:
        return Hits(self.subscriptions[chosen], self.places[chosen])


def distinct(posts: pa.Table, hits: Hits) -> tuple[pa.Table, int, Hits, pa.Table | None]:
    """The posts that were hit, each id once and in order (its index then grows in order too); hits point to them."""
    wanted, places = _used(hits.places, len(posts))
    kind = id_kind(posts.schema.field("id").type)
    columns = post_columns(posts if len(wanted) == len(posts) else posts.take(pa.array(wanted)))
    ids = columns["id"].combine_chunks()
    bad = pc.fill_null(pc.greater(pc.binary_length(ids), MAX_ID_BYTES), True)
    if pc.any(bad).as_py():
        return _without(posts, hits, wanted[bad.to_numpy(zero_copy_only=False)])
    if not pc.all(pc.less(ids[:-1], ids[1:])).as_py():
        columns, group = _grouped(columns, ids)
        places = group[places]
    return columns, kind, Hits(hits.subscriptions, places), None


def _used(places: Whole, count: int) -> tuple[Whole, Whole]:
    """The places that occur, in order, and for each given place its rank among them."""
    occurs = np.zeros(count, np.bool_)
    occurs[places] = True
    rank = np.cumsum(occurs, dtype=np.int64) - 1
    return np.flatnonzero(occurs), rank[places]


def _grouped(columns: pa.Table, ids: pa.Array) -> tuple[pa.Table, Whole]:
    """The rows in order of their ids, of equal ids the first; and for each row given the place of its id."""
    order = pc.sort_indices(ids).to_numpy(zero_copy_only=False).astype(np.int64)
    ordered = ids.take(pa.array(order))
    starts = np.ones(len(order), np.bool_)
    starts[1:] = pc.not_equal(ordered[:-1], ordered[1:]).to_numpy(zero_copy_only=False)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(starts) - 1
    return columns.take(pa.array(order[starts])), group


def _without(posts: pa.Table, hits: Hits, bad: Whole) -> tuple[pa.Table, int, Hits, pa.Table | None]:
    """Posts without an id, or with one no index can hold, are set aside like any other bad row."""
    ids = clean(posts["id"].take(pa.array(bad)))
    reasons = pc.if_else(pc.is_null(ids), "no id", _TOO_LONG)
    unfit = pa.table({"reason": reasons, "excerpt": ids})
    rest = hits.where(~np.isin(hits.places, bad))
    if not len(rest.places):
        return post_columns(posts.slice(0, 0)), 0, rest, unfit
    return (*distinct(posts, rest)[:3], unfit)


def once(hits: Hits) -> Hits:
    """Each pair once, in the order in which they will lie on disk."""
    if not len(hits.places):
        return hits
    bits = int(hits.places.max()).bit_length()
    packed = sorted_once(hits.subscriptions << bits | hits.places)
    return Hits(packed >> bits, packed & ((1 << bits) - 1))


def sorted_once(values: Whole) -> Whole:
    """As np.unique, which hashes and takes several times as long."""
    return runs(np.sort(values))[0]


def runs(ordered: Whole) -> tuple[Whole, Whole]:
    """Each of the values once, which are in order, and how often it is there."""
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), np.bool_), ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))
