"""Convert tables of subscriptions to one schema and reject invalid rows.

Checks run on whole columns. Only a column with an invalid value is checked row by row, to find the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tidings.errors import InputError
from tidings.ingest.validation import missing_field, not_utf8
from tidings.query.geo.column import parse_region
from tidings.schemas import REGION_FIELDS, REGION_TYPE, RejectedSubscription, SubscriptionFile, subscription_schema

# Spark has no unsigned types and reads such Parquet columns as these.
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
Rejections = dict[int, str]  # row → the first reason to reject it


def from_table(
    table: pa.Table,
    lines: npt.NDArray[np.int64] | None = None,
    already_rejected: Iterable[RejectedSubscription] = (),
) -> SubscriptionFile:
    """Check a table with `id` and `query` and optionally `owner` and `region`; return valid and rejected rows.

    Rejected are rows without an id, with an id of an earlier row, with neither query nor region, or with an invalid
    region. `region` may be a list, a struct of west, south, east and north, the text "w,s,e,n", or GeoJSON polygons.
    `lines` has the line of each row (by default its number from 1). Raise InputError if a column is missing or has
    the wrong type.
    """
    rejections: Rejections = {}
    columns = [_id_column(table, rejections), *_text_columns(table, rejections), _region_column(table, rejections)]
    clean = pa.Table.from_arrays(columns, schema=subscription_schema(columns[0].type))
    _reject_missing_ids(clean, rejections)
    _reject_empty(clean, rejections)
    _reject_duplicates(clean, rejections)
    lines = np.arange(1, len(clean) + 1, dtype=np.int64) if lines is None else lines
    rejected = [*already_rejected, *_list_rejected(clean, lines, rejections)]
    valid_lines = np.delete(lines, list(rejections)) if rejections else lines
    return SubscriptionFile(_drop_rows(clean, rejections), sorted(rejected, key=lambda row: row.line), valid_lines)


def _id_column(table: pa.Table, rejections: Rejections) -> pa.ChunkedArray:
    """Return the ids as strings, signed integers or decimals, which Spark supports."""
    ids = _plain_strings(_require_column(table, "id"))
    ids = ids.cast(_SIGNED.get(ids.type, ids.type))
    if pt.is_integer(ids.type) or pt.is_decimal(ids.type):
        return ids
    if not (pt.is_string(ids.type) or pt.is_null(ids.type)):
        raise InputError(f"Subscriptions: the column `id` has type {ids.type}. Use strings or integers.")
    return _valid_text("id", ids, rejections)


def _text_columns(table: pa.Table, rejections: Rejections) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the query and owner columns; reject rows that are not valid UTF-8."""
    query = _plain_strings(_require_column(table, "query"))
    owner = _plain_strings(table["owner"]) if "owner" in table.column_names else _nulls(len(table), pa.string())
    if pt.is_integer(owner.type):
        owner = owner.cast(pa.string())
    return _valid_text("query", query, rejections), _valid_text("owner", owner, rejections)


def _valid_text(name: str, column: pa.ChunkedArray, rejections: Rejections) -> pa.ChunkedArray:
    if pt.is_null(column.type):
        return column.cast(pa.string())
    if not pt.is_string(column.type):
        raise InputError(f"Subscriptions: the column `{name}` has type {column.type}. Use strings.")
    try:
        column.validate(full=True)  # some Parquet writers put arbitrary bytes into string columns
        return column
    except pa.ArrowInvalid:
        return _row_by_row(column.cast(pa.binary()), _decode, pa.string(), not_utf8(name), rejections)


def _region_column(table: pa.Table, rejections: Rejections) -> pa.ChunkedArray:
    """Return the regions as lists of numbers; reject rows with an invalid region."""
    if "region" not in table.column_names:
        return _nulls(len(table), REGION_TYPE)
    column = _plain_strings(table["region"])
    if pt.is_null(column.type):
        return column.cast(REGION_TYPE)
    if _is_list_of_numbers(column.type) and _all_four_finite(column):
        return column.cast(REGION_TYPE)
    if pt.is_struct(column.type):
        names = {field.name for field in column.type}
        if not (set(REGION_FIELDS) <= names or {"type", "coordinates"} <= names):
            raise InputError(
                f"Subscriptions: the column `region` needs the fields {', '.join(REGION_FIELDS)}, "
                "or type and coordinates as in GeoJSON."
            )
    return _row_by_row(column, parse_region, REGION_TYPE, None, rejections)


def _is_list_of_numbers(kind: pa.DataType) -> bool:
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        return False
    return bool(pt.is_integer(kind.value_type) or pt.is_floating(kind.value_type))


def _all_four_finite(column: pa.ChunkedArray) -> bool:
    lengths = pc.list_value_length(column)
    numbers = pc.list_flatten(column).cast(pa.float64())
    fine = pc.and_kleene(pc.all(pc.equal(lengths, 4)), pc.all(pc.is_finite(numbers), skip_nulls=False))
    return numbers.null_count == 0 and fine.as_py() is not False


def _row_by_row(
    column: pa.ChunkedArray, parse: Callable[[Any], Any], kind: pa.DataType, reason: str | None, rejections: Rejections
) -> pa.ChunkedArray:
    """Parse each value; a ValueError rejects its row with `reason`, or else with its message."""
    parsed: list[Any] = []
    for row, value in enumerate(column.to_pylist()):
        try:
            parsed.append(None if value is None else parse(value))
        except ValueError as error:
            rejections.setdefault(row, reason or str(error))
            parsed.append(None)
    return pa.chunked_array([pa.array(parsed, kind)])


def _decode(value: bytes) -> str:
    return value.decode("utf-8")


def _reject_missing_ids(table: pa.Table, rejections: Rejections) -> None:
    ids = table["id"]
    is_missing = pc.is_null(ids)
    if pt.is_string(ids.type):
        is_missing = pc.or_(is_missing, pc.fill_null(pc.equal(ids, ""), False))
    for row in _rows_where(is_missing):
        rejections.setdefault(row, missing_field("id"))


def _reject_empty(table: pa.Table, rejections: Rejections) -> None:
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(table["query"]), ""), True)
    for row in _rows_where(pc.and_(blank, pc.is_null(table["region"]))):
        rejections.setdefault(row, "the query and the region are missing")


def _reject_duplicates(table: pa.Table, rejections: Rejections) -> None:
    """Keep the first valid row of each id and reject the others."""
    valid = np.delete(np.arange(len(table)), list(rejections))
    ids = table["id"].take(pa.array(valid)) if rejections else table["id"]
    codes = ids.combine_chunks().dictionary_encode()
    if len(codes.dictionary) == len(valid):
        return
    # codes are in order of first occurrence, so a code not above all earlier ones is a repetition
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    highest = np.maximum.accumulate(np.concatenate([[-1], numbers[:-1]]))
    for row in valid[numbers <= highest].tolist():
        rejections[row] = f"the id {table['id'][row].as_py()!s} belongs to an earlier subscription"


def _list_rejected(table: pa.Table, lines: npt.NDArray[np.int64], rejections: Rejections) -> list[RejectedSubscription]:
    return [
        RejectedSubscription(int(lines[row]), table["id"][row].as_py(), reason) for row, reason in rejections.items()
    ]


def _drop_rows(table: pa.Table, rejections: Rejections) -> pa.Table:
    keep = np.ones(len(table), dtype=bool)
    keep[list(rejections)] = False
    return (table.filter(pa.array(keep)) if rejections else table).combine_chunks()


def _require_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if table.column_names.count(name) == 1:
        return table[name]
    if name in table.column_names:
        raise InputError(f"Subscriptions: the column `{name}` occurs twice.")
    columns = ", ".join(table.column_names) or "none"
    raise InputError(f"Subscriptions: the column `{name}` is missing. The columns are: {columns}.")


def _plain_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert dictionary, large and view strings to plain ones; leave other types unchanged."""
    kind = column.type
    if pt.is_dictionary(kind):
        return _plain_strings(column.cast(kind.value_type))
    if pt.is_large_string(kind) or kind == pa.string_view():
        return column.cast(pa.string())
    return column


def _nulls(count: int, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(count, kind)])


def _rows_where(mask: pa.ChunkedArray) -> list[int]:
    rows: list[int] = np.flatnonzero(mask.to_numpy()).tolist()
    return rows
