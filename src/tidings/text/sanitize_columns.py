"""`sanitise.py` for whole Arrow columns: one look at each value, and a second only at those that are not clean."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.text.sanitize import MAX_LINK, PLAIN_LINK, clean_link, clean_text


def clean_texts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """`clean_text` of every value; they are valid UTF-8."""
    from tidings.text.dirty_scan import doubtful  # here: it brings numba, which who only subscribes can do without

    return _mended(texts, doubtful(texts), clean_text)


def clean_links(links: pa.ChunkedArray) -> pa.ChunkedArray:
    """`clean_link` of every value."""
    plain = pc.and_(pc.match_substring_regex(links, f"^{PLAIN_LINK}$"), pc.less_equal(pc.utf8_length(links), MAX_LINK))
    return _mended(links, pc.invert(plain), clean_link)


def _mended(
    values: pa.ChunkedArray, doubtful: pa.Array | pa.ChunkedArray, mend: Callable[[str], str | None]
) -> pa.ChunkedArray:
    """The values with the doubtful ones mended."""
    rows = np.flatnonzero(pc.fill_null(doubtful, False).to_numpy(zero_copy_only=False))
    if not len(rows):
        return values
    whole = values.combine_chunks()
    mended = pa.array([mend(value) for value in whole.take(pa.array(rows)).to_pylist()], whole.type)
    # They are few: what lies between them is copied as it is, many times faster than value by value.
    pieces = [whole.slice(0, rows[0])]
    for place, (row, after) in enumerate(itertools.pairwise([*rows.tolist(), len(whole)])):
        pieces += [mended.slice(place, 1), whole.slice(row + 1, after - row - 1)]
    return pa.chunked_array([pa.concat_arrays(pieces)], whole.type)
