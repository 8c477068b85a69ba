"""The searchable text of a post: title, text and tags, joined by breaks that no phrase crosses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.text.char_classes import FIELD_BREAK

_NOT_IN_TAGS = r"[^\pL\pM\pN_]+"


def join_searchable(batch: pa.RecordBatch) -> pa.Array:
    """Return the searchable text of every post; the columns `title` and `tags` (lists of strings) are optional."""
    text = batch.column("text")
    names = batch.schema.names
    if "title" not in names and "tags" not in names:
        return text
    parts = [pc.fill_null(batch.column("title"), ""), text] if "title" in names else [text]
    if "tags" in names:
        parts.append(_join_tags(batch.column("tags")))
    return pc.binary_join_element_wise(*parts, FIELD_BREAK)


def _join_tags(tags: pa.Array) -> pa.Array:
    """Return the tags of each post as hashtags; characters that a hashtag cannot contain become underscores."""
    filled = pc.fill_null(tags, pa.scalar([], tags.type))
    values = pc.utf8_trim(pc.replace_substring_regex(pc.fill_null(filled.flatten(), ""), _NOT_IN_TAGS, "_"), "_")
    hashtags = pc.binary_join_element_wise("", values, "#")
    lengths = pc.list_value_length(filled).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), hashtags), FIELD_BREAK)


def read_positions(batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Return longitude and latitude of every post; NaN where they are missing."""
    if "lon" not in batch.schema.names or "lat" not in batch.schema.names:
        return np.full((batch.num_rows, 2), np.nan)
    both = [pc.fill_null(batch.column(name), float("nan")).to_numpy(zero_copy_only=False) for name in ("lon", "lat")]
    return np.column_stack(both).astype(np.float64)
