"""Which subscriptions an index would refuse, and why, told before they are stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.query.table import Refused, parse_rows

_PIECE = 10_000
_FEW = 2_000  # the parser has read them before the compiled way is even loaded


def refused(table: pa.Table, done: Callable[[int], None] = lambda rows: None) -> list[Refused]:
    """The rows of a table with `query` and `region` that are refused; `done` hears now and then how far it is."""
    found: list[Refused] = []
    for start in range(0, len(table), _PIECE):
        piece = table.slice(start, _PIECE)
        queries, regions = piece["query"].combine_chunks(), piece["region"].combine_chunks()
        unsure = np.arange(len(piece)) if len(table) <= _FEW else _not_plain(queries, regions)
        found += [Refused(start + one.row, one.reason) for one in parse_rows(queries, regions, unsure)[1]]
        done(start + len(piece))
    return found


def _not_plain(queries: pa.Array, regions: pa.Array) -> NDArray[np.intp]:
    from tidings.index.bulk_parse import read_plain
    from tidings.index.compile import GrowingVocabulary  # here: it brings the compiler

    return np.flatnonzero(read_plain(queries, regions, GrowingVocabulary()).sizes == 0)
