"""Tables of subscriptions, wherever they come from, brought to one schema; rows that cannot be used are set aside.

The work is done on whole columns. Only a column in which something is wrong is looked at row by row, to say what.
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
from tidings.query.geo.column import parse_region
from tidings.schemas import REGION_FIELDS, REGION_TYPE, RejectedSubscription, SubscriptionFile, subscription_schema

# Spark has no unsigned types; these are what it reads such Parquet columns as.
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
Reject = dict[int, str]  # row → the first reason found against it


def from_table(
    table: pa.Table,
    lines: npt.NDArray[np.int64] | None = None,
    already_rejected: Iterable[RejectedSubscription] = (),
) -> SubscriptionFile:
    """Check the columns and rows of a table with ``id`` and ``query`` and optionally ``owner`` and ``region``.

    A column that is missing or of a wrong type raises InputError. A row without an id, with an id seen before, with
    neither query nor region, or with a region that is not four numbers is rejected by its line (by default its row,
    counted from 1). ``region`` may be a list, a struct of west, south, east and north, the text "w,s,e,n", or
    GeoJSON polygons.
    """
    bad: Reject = {}
    columns = [_id_column(table, bad), *_text_columns(table, bad), _region_column(table, bad)]
    clean = pa.Table.from_arrays(columns, schema=subscription_schema(columns[0].type))
    _reject_missing_ids(clean, bad)
    _reject_empty(clean, bad)
    _reject_duplicates(clean, bad)
    lines = np.arange(1, len(clean) + 1, dtype=np.int64) if lines is None else lines
    rejected = [*already_rejected, *_rejections(clean, lines, bad)]
    kept = np.delete(lines, list(bad)) if bad else lines
    return SubscriptionFile(_without(clean, bad), sorted(rejected, key=lambda one: one.line), kept)


def _id_column(table: pa.Table, bad: Reject) -> pa.ChunkedArray:
    """The ids in a type Spark has: strings, signed integers and decimals stay as they are."""
    ids = _plain_strings(_required(table, "id"))
    ids = ids.cast(_SIGNED.get(ids.type, ids.type))
    if pt.is_integer(ids.type) or pt.is_decimal(ids.type):
        return ids
    if not (pt.is_string(ids.type) or pt.is_null(ids.type)):
        raise InputError(f"The column `id` of the subscriptions must hold strings or integers, not {ids.type}.")
    return _valid_text("id", ids, bad)


def _text_columns(table: pa.Table, bad: Reject) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The query and owner columns as valid UTF-8; rows that are not are rejected."""
    query = _plain_strings(_required(table, "query"))
    owner = _plain_strings(table["owner"]) if "owner" in table.column_names else _nulls(len(table), pa.string())
    if pt.is_integer(owner.type):
        owner = owner.cast(pa.string())
    return _valid_text("query", query, bad), _valid_text("owner", owner, bad)


def _valid_text(name: str, column: pa.ChunkedArray, bad: Reject) -> pa.ChunkedArray:
    if pt.is_null(column.type):
        return column.cast(pa.string())
    if not pt.is_string(column.type):
        raise InputError(f"The column `{name}` of the subscriptions must hold strings, not {column.type}.")
    try:
        column.validate(full=True)  # some writers of Parquet put any bytes into a string column
        return column
    except pa.ArrowInvalid:
        return _row_by_row(column.cast(pa.binary()), _decoded, pa.string(), f"the {name} is not valid UTF-8", bad)


def _region_column(table: pa.Table, bad: Reject) -> pa.ChunkedArray:
    """The regions as lists of four finite numbers; rows with anything else are rejected."""
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
                f"The column `region` of the subscriptions must have the fields {', '.join(REGION_FIELDS)}, "
                "or type and coordinates as GeoJSON has."
            )
    return _row_by_row(column, parse_region, REGION_TYPE, None, bad)


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
    column: pa.ChunkedArray, parse: Callable[[Any], Any], kind: pa.DataType, reason: str | None, bad: Reject
) -> pa.ChunkedArray:
    """Parse each value; a ValueError rejects its row with the given reason or else the error's own."""
    parsed: list[Any] = []
    for row, value in enumerate(column.to_pylist()):
        try:
            parsed.append(None if value is None else parse(value))
        except ValueError as error:
            bad.setdefault(row, reason or str(error))
            parsed.append(None)
    return pa.chunked_array([pa.array(parsed, kind)])


def _decoded(value: bytes) -> str:
    return value.decode("utf-8")


def _reject_missing_ids(table: pa.Table, bad: Reject) -> None:
    ids = table["id"]
    missing = pc.is_null(ids)
    if pt.is_string(ids.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), False))
    for row in _rows_where(missing):
        bad.setdefault(row, "it has no id")


def _reject_empty(table: pa.Table, bad: Reject) -> None:
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(table["query"]), ""), True)
    for row in _rows_where(pc.and_(blank, pc.is_null(table["region"]))):
        bad.setdefault(row, "it has neither a query nor a region")


def _reject_duplicates(table: pa.Table, bad: Reject) -> None:
    """Of the rows that are good so far, the first with an id stays; the others are rejected by that id."""
    good = np.delete(np.arange(len(table)), list(bad))
    ids = table["id"].take(pa.array(good)) if bad else table["id"]
    codes = ids.combine_chunks().dictionary_encode()
    if len(codes.dictionary) == len(good):
        return
    # codes are given in order of first appearance, so a code that is not above all before it has been seen
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    highest = np.maximum.accumulate(np.concatenate([[-1], numbers[:-1]]))
    for row in good[numbers <= highest].tolist():
        bad[row] = f"the id {table['id'][row].as_py()!s} was used before; the first subscription with it is kept"


def _rejections(table: pa.Table, lines: npt.NDArray[np.int64], bad: Reject) -> list[RejectedSubscription]:
    return [RejectedSubscription(int(lines[row]), table["id"][row].as_py(), reason) for row, reason in bad.items()]


def _without(table: pa.Table, bad: Reject) -> pa.Table:
    keep = np.ones(len(table), dtype=bool)
    keep[list(bad)] = False
    return (table.filter(pa.array(keep)) if bad else table).combine_chunks()


def _required(table: pa.Table, name: str) -> pa.ChunkedArray:
    if table.column_names.count(name) == 1:
        return table[name]
    if name in table.column_names:
        raise InputError(f"The subscriptions have more than one column `{name}`.")
    found = ", ".join(table.column_names) or "none"
    raise InputError(f"The subscriptions have no column `{name}`; the columns found are: {found}.")


def _plain_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionary, large and view strings as plain ones; other types unchanged."""
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
