"""Columns of posts: select them, give rows without an id one, and find the reason to reject a row.

All of it is native Spark. Reasons are computed only where they are requested.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.errors import InputError
from tidings.ingest.validation import reject_reason_sql
from tidings.schemas import CORRUPT_RECORD, ORIGIN_FIELDS, POST_FIELDS, SOURCE

_GIVEN_ID = "_given_id"
_ID_SOURCE_FIELDS = ("text", "title", "author", "time", "link", "lat", "lon")


def select_columns(posts: DataFrame) -> DataFrame:
    """Select what matching reads: `id`, `text` and, where present, `title`, `tags`, `lat`, `lon`.

    Rows are not validated here, because that costs as much as the transport. `ingest.validation` rejects the same
    rows in the workers, so that they match nothing; `select_rejected` returns them with a reason.
    """
    _check_columns(posts)
    readable = posts.where(F.col(CORRUPT_RECORD).isNull()) if CORRUPT_RECORD in posts.columns else posts
    return readable.select(*(column.alias(name) for name, column in _columns(posts).items()))


def select_accepted(posts: DataFrame) -> DataFrame:
    """Select the posts that can be matched, with the columns of `select_columns`."""
    return with_reject_reason(posts).where(F.col("reason").isNull()).select(*_columns(posts))


def select_rejected(posts: DataFrame) -> DataFrame:
    """Select the posts that cannot be matched: `post_id`, `reason`, the first 200 characters of `text`, the origin.

    A line that cannot be read has no id: the hash of its content would be that of all such lines.
    """
    rows = with_reject_reason(posts).where(F.col("reason").isNotNull())
    post_id, text = F.col("id"), F.col("text")
    if CORRUPT_RECORD in posts.columns:
        post_id, text = F.when(F.col(CORRUPT_RECORD).isNull(), post_id), F.coalesce(text, F.col(CORRUPT_RECORD))
        if "id" in posts.columns:
            post_id = F.coalesce(post_id, F.col(_GIVEN_ID))
    excerpt = F.substring(F.make_valid_utf8(text), 1, 200)
    return rows.select(post_id.alias("post_id"), "reason", excerpt.alias("text"), *_origin(posts))


def id_type(posts: DataFrame) -> T.DataType:
    """Return the type of `post_id` in matches: that of the `id` column, or string without one."""
    return posts.schema["id"].dataType if "id" in posts.columns else T.StringType()


def with_reject_reason(posts: DataFrame) -> DataFrame:
    """Convert the columns to the types that matching needs, and add the `reason` of rejected rows (else null)."""
    _check_columns(posts)
    others = [F.col(name) for name in (CORRUPT_RECORD,) if name in posts.columns]
    others += [F.col("id").alias(_GIVEN_ID)] if "id" in posts.columns else []
    columns = (column.alias(name) for name, column in _columns(posts).items())
    prepared = posts.select(*others, *columns, *_origin(posts))
    return prepared.withColumn("reason", F.expr(reject_reason_sql(prepared.columns)))


def select_all_fields(posts: DataFrame) -> DataFrame:
    """Select all fields that are stored of a post. Unreadable rows get their line as `text` too.

    Rows are not validated yet, and texts may be invalid UTF-8: both are done later, for the few posts that match.
    """
    _check_columns(posts)
    columns = _columns(posts)
    others = [name for name in POST_FIELDS if name in posts.columns and name not in columns]
    columns |= {name: F.col(name).cast("string") for name in others}
    if CORRUPT_RECORD in posts.columns:
        columns["text"] = F.coalesce(columns["text"], F.make_valid_utf8(CORRUPT_RECORD))
        columns[CORRUPT_RECORD] = F.col(CORRUPT_RECORD)
    if SOURCE in posts.columns:
        columns[SOURCE] = F.col(SOURCE)
    return posts.select(*(column.alias(name) for name, column in columns.items()))


def with_reason_sql(names: Sequence[str], reason: str) -> list[str]:
    """Return SQL columns for rows of `select_all_fields`, with `reason`. One call to Spark instead of one each."""
    return [*(f"`{name}`" for name in names if name != CORRUPT_RECORD), f"{reason} AS reason"]


def _columns(posts: DataFrame) -> dict[str, Column]:
    columns = {"id": _id(posts), "text": F.col("text").cast("string")}
    if "title" in posts.columns:
        columns["title"] = F.make_valid_utf8(F.col("title").cast("string"))
    if "tags" in posts.columns:
        columns["tags"] = tag_list_column(posts.schema["tags"].dataType)
    if "lat" in posts.columns and "lon" in posts.columns:
        columns |= {name: _coordinate(name, posts.schema[name].dataType) for name in ("lat", "lon")}
    return columns


def _origin(posts: DataFrame) -> list[str]:
    return [name for name in ORIGIN_FIELDS if name in posts.columns]


def _check_columns(posts: DataFrame) -> None:
    if "text" not in posts.columns:
        columns = ", ".join(posts.columns) or "none"
        raise InputError(f"Posts: the column `text` is missing. The columns are: {columns}.")
    kind = posts.schema["text"].dataType
    if not isinstance(kind, T.StringType | T.BinaryType | T.VarcharType | T.CharType | T.NullType):
        raise InputError(f"Posts: the column `text` has type {kind.simpleString()}. Cast it to a string.")
    if ("lat" in posts.columns) != ("lon" in posts.columns):
        raise InputError("Posts: only one of the columns `lat` and `lon` exists. Provide both or neither.")


def _id(posts: DataFrame) -> Column:
    """Return the id; where it is missing, a hash of the content, so that it is the same in every run."""
    parts = [
        F.coalesce(F.col(name).cast("string"), F.lit("\x00")) for name in _ID_SOURCE_FIELDS if name in posts.columns
    ]
    if "id" not in posts.columns:
        return F.md5(F.concat_ws("\x1f", *parts).cast("binary"))
    kind = posts.schema["id"].dataType
    if isinstance(kind, T.StringType):
        return F.coalesce(F.col("id"), F.md5(F.concat_ws("\x1f", *parts).cast("binary")))
    if isinstance(kind, T.LongType):
        return F.coalesce(F.col("id"), F.xxhash64(*parts))
    return F.col("id")


def tag_list_column(kind: T.DataType) -> Column:
    """Return the column `tags` as a list of strings; its type may be a list or a string."""
    if isinstance(kind, T.ArrayType):
        return F.transform(F.col("tags").cast("array<string>"), F.make_valid_utf8)
    return F.split(F.trim(F.make_valid_utf8(F.col("tags").cast("string"))), r"[\s,;]+")


def _coordinate(name: str, kind: T.DataType) -> Column:
    """Return a coordinate: null if missing, infinite (an invalid position) if not a number."""
    value = F.col(name).try_cast("double")
    missing = F.col(name).isNull() | F.isnan(value)
    if isinstance(kind, T.NumericType):
        return F.when(~missing, value)
    is_empty = F.trim(F.col(name).cast("string")) == ""
    return F.when(missing | is_empty, None).otherwise(F.coalesce(value, F.lit(float("inf"))))
