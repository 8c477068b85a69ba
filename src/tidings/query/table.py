"""Rows of a table of subscriptions through the parser; what it refuses is set aside with its reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.errors import QueryError
from tidings.query.dnf import Place, Query
from tidings.query.geo.polygon import from_numbers
from tidings.query.parse import parse, region


@dataclass(frozen=True, slots=True)
class Refused:
    """A subscription that is not accepted: its place in the table it came from, and why."""

    row: int
    reason: str


def parse_rows(
    queries: pa.Array, regions: pa.Array | None, rows: NDArray[np.intp]
) -> tuple[dict[int, Query], list[Refused]]:
    """The queries of these rows as they are understood, each with the region beside it; and those refused."""
    parsed: dict[int, Query] = {}
    refused: list[Refused] = []
    beside = [None] * len(rows) if regions is None else regions.take(pa.array(rows)).to_pylist()
    for row, text, value in zip(rows.tolist(), queries.take(pa.array(rows)).to_pylist(), beside, strict=True):
        try:
            parsed[row] = parse(text or "", region_of(value))
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


def boxes_in(column: pa.Array) -> NDArray[np.float64]:
    """The rectangles a column holds, as `region_of` reads them, a row each; NaN for whatever is none."""
    found = np.full((len(column), 4), np.nan)
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not is_list or not pa.types.is_floating(column.type.value_type):
        return found
    rows = np.flatnonzero(pc.fill_null(pc.equal(pc.list_value_length(column), 4), False))
    sides = column.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(-1, 4) + 0.0
    west, south, east, north = sides.T
    is_box = (west >= -180) & (south >= -90) & (west <= east) & (south <= north) & (east <= 180) & (north <= 90)
    found[rows[is_box]] = sides[is_box]
    return found
