"""Rows of a table of subscriptions through the parser; what it refuses is set aside with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import QueryError
from tidings.query.normal import Place, Query
from tidings.query.parse import parse, region
from tidings.query.polygon import from_numbers


@dataclass(frozen=True, slots=True)
class Refused:
    """A subscription that is not accepted: its place in the table it came from, and why."""

    row: int
    reason: str


def parse_rows(
    queries: pa.Array, regions: Sequence[object] | None, rows: NDArray[np.intp]
) -> tuple[dict[int, Query], list[Refused]]:
    """The queries of these rows as they are understood, each with the region beside it; and those refused."""
    parsed: dict[int, Query] = {}
    refused: list[Refused] = []
    for row, text in zip(rows.tolist(), queries.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            parsed[row] = parse(text or "", region_of(regions[row] if regions is not None else None))
        except QueryError as error:
            refused.append(Refused(row, str(error)))
    return parsed, refused


def region_of(value: object) -> Place | None:
    """The region a column holds; QueryError when that is none."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < 4 or any(number is None for number in value):
        raise QueryError("a region needs four numbers: west, south, east, north")
    return region(*value) if len(value) == 4 else from_numbers(value)
