"""Find the subscriptions that an index would reject, before they are stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.query.table import InvalidSubscription, parse_rows

_CHUNK_ROWS = 10_000
_PARSER_ONLY_ROWS = 2_000  # up to this many the parser is faster than loading the compiled path


def find_invalid(table: pa.Table, progress: Callable[[int], None] = lambda rows: None) -> list[InvalidSubscription]:
    """Return the invalid rows of a table with `query` and `region`; `progress` gets the number of rows done."""
    invalid: list[InvalidSubscription] = []
    for start in range(0, len(table), _CHUNK_ROWS):
        chunk = table.slice(start, _CHUNK_ROWS)
        queries, regions = chunk["query"].combine_chunks(), chunk["region"].combine_chunks()
        rows = np.arange(len(chunk)) if len(table) <= _PARSER_ONLY_ROWS else _rows_to_parse(queries, regions)
        _, invalid_rows = parse_rows(queries, regions, rows)
        invalid += [InvalidSubscription(start + found.row, found.reason) for found in invalid_rows]
        progress(start + len(chunk))
    return invalid


def _rows_to_parse(queries: pa.Array, regions: pa.Array) -> NDArray[np.intp]:
    from tidings.index.bulk_parse import parse_simple
    from tidings.index.compile import GrowingVocabulary  # imported late: it loads numba

    return np.flatnonzero(parse_simple(queries, regions, GrowingVocabulary()).sizes == 0)
