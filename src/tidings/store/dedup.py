"""Deduplicate the results of a batch: posts with matches once per id, matches once per pair. Uses no database."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.ingest.validation import MAX_ID_BYTES, missing_field, too_long
from tidings.store.columns import id_kind, post_columns, replace_invalid
from tidings.store.database import Int64Array


class MatchRows(NamedTuple):
    """Matches as columns: the subscription, and the row of the post."""

    subscriptions: Int64Array
    post_rows: Int64Array

    def where(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> MatchRows:
        return MatchRows(self.subscriptions[mask], self.post_rows[mask])


def distinct_posts(posts: pa.Table, matches: MatchRows) -> tuple[pa.Table, int, MatchRows, pa.Table | None]:
    """Return the matched posts once per id, their kind of id, the matches that refer to them, and rejected posts.

    Posts are sorted by id, so that the index of the table grows in order too.
    """
    used, post_rows = _used_rows(matches.post_rows, len(posts))
    kind = id_kind(posts.schema.field("id").type)
    columns = post_columns(posts if len(used) == len(posts) else posts.take(pa.array(used)))
    ids = columns["id"].combine_chunks()
    invalid = pc.fill_null(pc.greater(pc.binary_length(ids), MAX_ID_BYTES), True)
    if pc.any(invalid).as_py():
        return _without_rejected(posts, matches, used[invalid.to_numpy(zero_copy_only=False)])
    if not pc.all(pc.less(ids[:-1], ids[1:])).as_py():
        columns, group = _group_by_id(columns, ids)
        post_rows = group[post_rows]
    return columns, kind, MatchRows(matches.subscriptions, post_rows), None


def _used_rows(rows: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """Return the rows that occur, sorted, and for each given row its rank among them."""
    occurs = np.zeros(count, np.bool_)
    occurs[rows] = True
    rank = np.cumsum(occurs, dtype=np.int64) - 1
    return np.flatnonzero(occurs), rank[rows]


def _group_by_id(columns: pa.Table, ids: pa.Array) -> tuple[pa.Table, Int64Array]:
    """Return the first row of each id, sorted by id, and for each given row the new row of its id."""
    order = pc.sort_indices(ids).to_numpy(zero_copy_only=False).astype(np.int64)
    ordered = ids.take(pa.array(order))
    starts = np.ones(len(order), np.bool_)
    starts[1:] = pc.not_equal(ordered[:-1], ordered[1:]).to_numpy(zero_copy_only=False)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(starts) - 1
    return columns.take(pa.array(order[starts])), group


def _without_rejected(
    posts: pa.Table, matches: MatchRows, invalid: Int64Array
) -> tuple[pa.Table, int, MatchRows, pa.Table | None]:
    """Reject posts that have no id, or one too long for an index."""
    ids = replace_invalid(posts["id"].take(pa.array(invalid)))
    reasons = pc.if_else(pc.is_null(ids), missing_field("id"), too_long("id", MAX_ID_BYTES))
    rejected = pa.table({"reason": reasons, "excerpt": ids})
    rest = matches.where(~np.isin(matches.post_rows, invalid))
    if not len(rest.post_rows):
        return post_columns(posts.slice(0, 0)), 0, rest, rejected
    return (*distinct_posts(posts, rest)[:3], rejected)


def distinct_matches(matches: MatchRows) -> MatchRows:
    """Return each pair once, in the order of the table on disk."""
    if not len(matches.post_rows):
        return matches
    bits = int(matches.post_rows.max()).bit_length()
    packed = sorted_distinct(matches.subscriptions << bits | matches.post_rows)
    return MatchRows(packed >> bits, packed & ((1 << bits) - 1))


def sorted_distinct(values: Int64Array) -> Int64Array:
    """Like np.unique, which hashes and takes several times as long."""
    return count_runs(np.sort(values))[0]


def count_runs(ordered: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values of a sorted array, and how often each occurs."""
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), np.bool_), ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))
