"""`sanitize.py` for Arrow columns: a fast scan of all values, then cleaning of the few that need it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.text.sanitize import MAX_LINK_CHARS, PLAIN_LINK, clean_link, clean_text


def clean_texts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Apply `clean_text` to every value. The values must be valid UTF-8."""
    from tidings.text.dirty_scan import find_dirty  # imports numba, which `subscribe` does not need

    return _clean_rows(texts, find_dirty(texts), clean_text)


def clean_links(links: pa.ChunkedArray) -> pa.ChunkedArray:
    """Apply `clean_link` to every value; null where there is no valid link."""
    plain = pc.and_(
        pc.match_substring_regex(links, f"^{PLAIN_LINK}$"), pc.less_equal(pc.utf8_length(links), MAX_LINK_CHARS)
    )
    return _clean_rows(links, pc.invert(plain), clean_link)


def _clean_rows(
    values: pa.ChunkedArray, is_dirty: pa.Array | pa.ChunkedArray, clean: Callable[[str], str | None]
) -> pa.ChunkedArray:
    """Return the values with the dirty ones cleaned."""
    rows = np.flatnonzero(pc.fill_null(is_dirty, False).to_numpy(zero_copy_only=False))
    if not len(rows):
        return values
    column = values.combine_chunks()
    cleaned = pa.array([clean(value) for value in column.take(pa.array(rows)).to_pylist()], column.type)
    # Dirty rows are few: copying the slices between them is many times faster than copying value by value.
    pieces = [column.slice(0, rows[0])]
    for number, (row, after) in enumerate(itertools.pairwise([*rows.tolist(), len(column)])):
        pieces += [cleaned.slice(number, 1), column.slice(row + 1, after - row - 1)]
    return pa.chunked_array([pa.concat_arrays(pieces)], column.type)
