"""Parse the queries of a table of subscriptions; invalid ones are listed with their reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.errors import QueryError
from tidings.query.cover import Entry
from tidings.query.dnf import Region
from tidings.query.geo.polygon import polygons_from_numbers
from tidings.query.geo.rectangle import are_single_boxes
from tidings.query.geo.region import make_rectangle
from tidings.query.parse import parse_entries


@dataclass(frozen=True, slots=True)
class InvalidSubscription:
    """A subscription that cannot be accepted: its row in the table, and the reason."""

    row: int
    reason: str


def parse_rows(
    queries: pa.Array, regions: pa.Array | None, rows: NDArray[np.intp]
) -> tuple[dict[int, tuple[Entry, ...]], list[InvalidSubscription]]:
    """Return the index entries of the queries of these rows, each with the region of its column; and invalid rows."""
    parsed: dict[int, tuple[Entry, ...]] = {}
    invalid: list[InvalidSubscription] = []
    columns = [None] * len(rows) if regions is None else regions.take(pa.array(rows)).to_pylist()
    for row, text, value in zip(rows.tolist(), queries.take(pa.array(rows)).to_pylist(), columns, strict=True):
        try:
            parsed[row] = parse_entries(text or "", region_from_column(value))
        except QueryError as error:
            invalid.append(InvalidSubscription(row, str(error)))
    return parsed, invalid


def region_from_column(value: object) -> Region | None:
    """Return the region of a column value; QueryError if it is invalid."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < 4 or any(number is None for number in value):
        raise QueryError("The region needs four numbers: west, south, east, north. Correct it.")
    return make_rectangle(*value) if len(value) == 4 else polygons_from_numbers(value)


def rectangles_in_column(column: pa.Array) -> NDArray[np.float64]:
    """Return the rectangles of a column that are one row (`geo/geometry.py`); NaN for all other values."""
    rectangles = np.full((len(column), 4), np.nan)
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not is_list or not pa.types.is_floating(column.type.value_type):
        return rectangles
    rows = np.flatnonzero(pc.fill_null(pc.equal(pc.list_value_length(column), 4), False))
    sides = column.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(-1, 4) + 0.0
    west, south, east, north = sides.T
    is_box = (west >= -180) & (south >= -90) & (south <= north) & (east <= 180) & (north <= 90)
    is_box &= are_single_boxes(sides)
    rectangles[rows[is_box]] = sides[is_box]
    return rectangles
