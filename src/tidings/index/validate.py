"""Find the subscriptions that an index would reject, before they are stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.query.cost import CHARACTERS_PER_UNIT, entries_cost
from tidings.query.table import InvalidSubscription, parse_rows

_CHUNK_ROWS = 10_000
_PARSER_ONLY_ROWS = 2_000  # up to this many the parser is faster than loading the compiled path


def find_invalid(
    table: pa.Table, progress: Callable[[int], None] = lambda rows: None
) -> tuple[list[InvalidSubscription], NDArray[np.int64]]:
    """Return the invalid rows of a table with `query` and `region`, and the cost of each row (1 if invalid).

    `progress` gets the number of rows done.
    """
    invalid: list[InvalidSubscription] = []
    costs = np.ones(len(table), np.int64)
    for start in range(0, len(table), _CHUNK_ROWS):
        chunk = table.slice(start, _CHUNK_ROWS)
        queries, regions = chunk["query"].combine_chunks(), chunk["region"].combine_chunks()
        is_small = len(table) <= _PARSER_ONLY_ROWS
        simple = np.zeros(len(chunk), np.int64) if is_small else _simple_costs(queries, regions)
        costs[start : start + len(chunk)] = simple
        rows = np.flatnonzero(simple == 0)
        parsed, invalid_rows = parse_rows(queries, regions, rows)
        costs[start + rows] = [
            entries_cost(parsed[row], len(queries[row].as_py())) if row in parsed else 1 for row in rows.tolist()
        ]
        invalid += [InvalidSubscription(start + found.row, found.reason) for found in invalid_rows]
        progress(start + len(chunk))
    return invalid, costs


def _simple_costs(queries: pa.Array, regions: pa.Array) -> NDArray[np.int64]:
    """Return the cost of each simple query; 0 for those that the parser must read."""
    from tidings.index.bulk_parse import parse_simple
    from tidings.index.compile import GrowingVocabulary  # imported late: it loads numba

    simple = parse_simple(queries, regions, GrowingVocabulary())
    lengths = pc.fill_null(pc.utf8_length(queries), 0).to_numpy(zero_copy_only=False)
    entries = np.where(simple.is_any, simple.sizes, 1)
    return np.where(simple.sizes > 0, np.maximum(entries, lengths // CHARACTERS_PER_UNIT), 0)
