"""Arrow columns as the store keeps them: sanitised text and links, ids with their kind, times and tags as text."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.errors import InputError
from tidings.text.sanitize import clean_text
from tidings.text.sanitize_columns import clean_links, clean_texts

TEXT_ID, WHOLE_ID = 0, 1
MAX_ID_BYTES = 1_024  # PostgreSQL indexes no more than 2,700
MAX_EXCERPT = 200
MAX_REJECTED_A_BATCH = 1_000
_TEXTS = ("text", "author", "lang", "title")
_REJECTED = {"source": pa.string(), "source_row": pa.int64(), "reason": pa.string(), "excerpt": pa.string()}


def id_kind(kind: pa.DataType) -> int:
    """Which kind of id a column of this type holds; InputError if the store cannot keep it as it is."""
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return WHOLE_ID
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return TEXT_ID
    raise InputError(f"Posts whose ids are of type {kind} cannot be stored; cast them to text or whole numbers.")


def original_id(text: str, kind: int) -> int | str:
    """The id with the type and value it came with."""
    return int(text) if kind == WHOLE_ID else text


def clean(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as valid text; what is not UTF-8, and NUL, which PostgreSQL cannot hold, becomes U+FFFD."""
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        raw = text.cast(pa.binary()).to_pylist()
        text = pa.chunked_array([[None if value is None else value.decode("utf-8", "replace") for value in raw]])
        text = text.cast(pa.string())
    if any(map(_has_nul, text.chunks)):
        text = pc.replace_substring(text, "\x00", "\ufffd")
    return text


def _has_nul(chunk: pa.Array) -> bool:
    """Looks at all bytes at once, which is ten times faster than Arrow's search in every text."""
    _, offsets, data = chunk.buffers()
    if not len(chunk) or data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    used = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return bool(np.count_nonzero(used) < len(used))


def post_columns(posts: pa.Table) -> pa.Table:
    """The posts in the columns of the table `post`, without number and refs. Columns it does not know are left out."""
    made = {"id": clean(posts["id"])}
    made |= {name: clean_texts(clean(posts[name])) for name in _TEXTS if name in posts.column_names}
    if "link" in posts.column_names:
        made["link"] = clean_links(clean(posts["link"]))
    if "time" in posts.column_names:
        made["time"] = times(posts["time"])
    for name in ("lat", "lon"):
        if name in posts.column_names:
            made[name] = posts[name].cast(pa.float64())
    if "tags" in posts.column_names:
        made["tags"] = tags(posts["tags"])
    if "arrived_at" in posts.column_names:
        made["arrived_at"] = posts["arrived_at"].cast(pa.float64())
    return pa.table(made)


def times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as ISO 8601 in UTC; what came as text or a number stays as it was written."""
    if not pa.types.is_timestamp(column.type):
        return clean_texts(clean(column))
    naive = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.timestamp("us"))
    return pc.binary_join_element_wise(pc.binary_replace_slice(naive.cast(pa.string()), 10, 11, "T"), "Z", "")


def tags(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of tags as JSON; text stays one tag."""
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), pa.string())])
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        column = clean(column)
    return clean(pa.chunked_array([[_tags(value) for value in column.to_pylist()]], pa.string()))


def _tags(value: list[str | None] | str | None) -> str | None:
    listed = [value] if isinstance(value, str) else value
    return json.dumps([clean_text(tag) for tag in listed if tag], ensure_ascii=False) if listed else None


def rejected_columns(rejected: pa.Table) -> pa.Table:
    """The first rows of `source`, `source_row`, `reason`, `excerpt`, shortened; columns that are missing are null.

    An excerpt shows what came, for who has to find out. It goes to `tidings status` only, which makes it harmless.
    """
    head = rejected.slice(0, MAX_REJECTED_A_BATCH)
    made = {}
    for name, kind in _REJECTED.items():
        column = head[name].cast(kind) if name in head.column_names else pa.chunked_array([pa.nulls(len(head), kind)])
        made[name] = clean(column) if kind == pa.string() else column
    made["reason"] = pc.fill_null(made["reason"], "no reason was given")
    made["excerpt"] = pc.utf8_slice_codeunits(made["excerpt"], 0, MAX_EXCERPT)
    return pa.table(made)


def numbered(columns: pa.Table, first: int, name: str = "number") -> pa.Table:
    """The rows with growing numbers."""
    return columns.append_column(name, pa.array(np.arange(first, first + len(columns), dtype=np.int64)))
