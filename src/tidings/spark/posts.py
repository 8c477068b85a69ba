"""Posts as a DataFrame: which columns count, what is wrong with a row, and an id for those that have none.

All of it is native Spark. Reasons are worked out only when somebody asks for them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.config import MAX_TEXT_BYTES
from tidings.errors import InputError
from tidings.model import POST_FIELDS

CORRUPT = "_corrupt_record"  # where Spark's readers put a line they cannot read
_IDENTITY = ("text", "title", "author", "time", "link", "lat", "lon")


def usable(posts: DataFrame) -> DataFrame:
    """What matching reads of posts: `id`, `text` and, where present, `title`, `tags`, `lat`, `lon`.

    Rows are not judged here: it costs as much as the whole transport. `receive.judge` finds the same rows unfit, which
    then match nothing; `rejected` says why.
    """
    _check_columns(posts)
    readable = posts.where(F.col(CORRUPT).isNull()) if CORRUPT in posts.columns else posts
    return readable.select(*(column.alias(name) for name, column in _columns(posts).items()))


def accepted(posts: DataFrame) -> DataFrame:
    """The posts that can be matched, as `usable` gives them; all others are in `rejected`."""
    return judged(posts).where(F.col("reason").isNull()).select(*_columns(posts))


def rejected(posts: DataFrame) -> DataFrame:
    """The posts that cannot be matched: `post_id`, `reason` and the beginning of the `text`."""
    bad = judged(posts).where(F.col("reason").isNotNull())
    shown = F.coalesce(F.col("text"), F.col(CORRUPT)) if CORRUPT in posts.columns else F.col("text")
    return bad.select(
        F.col("id").alias("post_id"), "reason", F.substring(F.make_valid_utf8(shown), 1, 200).alias("text")
    )


def id_type(posts: DataFrame) -> T.DataType:
    """The type matches carry as `post_id`: that of the `id` column, or string where there is none."""
    return posts.schema["id"].dataType if "id" in posts.columns else T.StringType()


def judged(posts: DataFrame) -> DataFrame:
    """The posts with their columns in the types matching needs, and a `reason` for those that cannot be used."""
    _check_columns(posts)
    kept = [CORRUPT] if CORRUPT in posts.columns else []
    columns = (column.alias(name) for name, column in _columns(posts).items())
    return posts.select(*kept, *columns, _reason(posts).alias("reason"))


def whole(posts: DataFrame) -> DataFrame:
    """The posts as `judged`, with all fields that are kept of a post; unreadable rows have their line as `text`."""
    _check_columns(posts)
    used = _columns(posts)
    others = {name: F.col(name).cast("string") for name in POST_FIELDS if name in posts.columns and name not in used}
    columns = {**used, **{name: F.make_valid_utf8(column) for name, column in others.items()}}
    if CORRUPT in posts.columns:
        columns["text"] = F.coalesce(columns["text"], F.make_valid_utf8(CORRUPT))
    return posts.select(*(column.alias(name) for name, column in columns.items()), _reason(posts).alias("reason"))


def _columns(posts: DataFrame) -> dict[str, Column]:
    columns = {"id": _id(posts), "text": F.col("text").cast("string")}
    if "title" in posts.columns:
        columns["title"] = F.make_valid_utf8(F.col("title").cast("string"))
    if "tags" in posts.columns:
        columns["tags"] = tag_list(posts.schema["tags"].dataType)
    if "lat" in posts.columns and "lon" in posts.columns:
        columns |= {"lat": _number("lat"), "lon": _number("lon")}
    return columns


def _check_columns(posts: DataFrame) -> None:
    if "text" not in posts.columns:
        found = ", ".join(posts.columns) or "none at all"
        raise InputError(f"Posts need a column `text`; these have: {found}.")
    kind = posts.schema["text"].dataType
    if not isinstance(kind, T.StringType | T.BinaryType | T.VarcharType | T.CharType | T.NullType):
        raise InputError(f"The column `text` holds {kind.simpleString()}, not text; cast it to a string.")
    if ("lat" in posts.columns) != ("lon" in posts.columns):
        raise InputError("Posts have only one of the columns `lat` and `lon`; give both or neither.")


def _id(posts: DataFrame) -> Column:
    """The id as it came; where it is missing, one that depends on nothing but what the post says."""
    parts = [F.coalesce(F.col(name).cast("string"), F.lit("\x00")) for name in _IDENTITY if name in posts.columns]
    if "id" not in posts.columns:
        return F.md5(F.concat_ws("\x1f", *parts).cast("binary"))
    kind = posts.schema["id"].dataType
    if isinstance(kind, T.StringType):
        return F.coalesce(F.col("id"), F.md5(F.concat_ws("\x1f", *parts).cast("binary")))
    if isinstance(kind, T.LongType):
        return F.coalesce(F.col("id"), F.xxhash64(*parts))
    return F.col("id")


def tag_list(kind: T.DataType) -> Column:
    """The column `tags` as a list of strings, whatever it came as."""
    if isinstance(kind, T.ArrayType):
        return F.transform(F.col("tags").cast("array<string>"), F.make_valid_utf8)
    return F.split(F.trim(F.make_valid_utf8(F.col("tags").cast("string"))), r"[\s,;]+")


def _number(name: str) -> Column:
    """A coordinate: null where there is none, infinite (which is nowhere) where it is not a number."""
    value = F.col(name).try_cast("double")
    missing = F.col(name).isNull() | F.isnan(value) | (F.trim(F.col(name).cast("string")) == "")
    return F.when(missing, None).otherwise(F.coalesce(value, F.lit(float("inf"))))


def _reason(posts: DataFrame) -> Column:
    """The first thing that is wrong with a row, in words; null when nothing is."""
    text = F.col("text").cast("string")
    reason = F.when(F.lit(False), F.lit(""))
    if CORRUPT in posts.columns:
        reason = reason.when(F.col(CORRUPT).isNotNull(), F.lit("the line cannot be read"))
    reason = reason.when(text.isNull(), F.lit("no text"))
    reason = reason.when(F.octet_length(text) > MAX_TEXT_BYTES, F.lit(f"text longer than {MAX_TEXT_BYTES:,} bytes"))
    reason = reason.when(~F.is_valid_utf8(text), F.lit("text is not valid UTF-8"))
    reason = reason.when(_id(posts).isNull(), F.lit("no id"))
    if "lat" in posts.columns:
        for name, limit in (("lat", 90), ("lon", 180)):
            reason = reason.when(_number(name) == float("inf"), F.lit(f"{name} is not a number"))
            reason = reason.when(F.abs(_number(name)) > limit, F.lit(f"{name} is not between -{limit} and {limit}"))
    return reason
