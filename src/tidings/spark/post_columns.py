"""Posts as a DataFrame: which columns count, what is wrong with a row, and an id for those that have none.

All of it is native Spark. Reasons are worked out only when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.config import MAX_TEXT_BYTES
from tidings.errors import InputError
from tidings.schemas import CORRUPT, POST_FIELDS

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
    prepared = posts.select(*kept, *(column.alias(name) for name, column in _columns(posts).items()))
    return prepared.withColumn("reason", F.expr(reason(prepared.columns)))


def whole(posts: DataFrame) -> DataFrame:
    """The posts with all fields that are kept of a post; unreadable rows have their line as `text` too.

    Neither judged nor all texts valid yet: that is left for the few that are wanted (`told`, `found.parted`).
    """
    _check_columns(posts)
    columns = _columns(posts)
    others = [name for name in POST_FIELDS if name in posts.columns and name not in columns]
    columns |= {name: F.col(name).cast("string") for name in others}
    if CORRUPT in posts.columns:
        columns["text"] = F.coalesce(columns["text"], F.make_valid_utf8(CORRUPT))
        columns[CORRUPT] = F.col(CORRUPT)
    return posts.select(*(column.alias(name) for name, column in columns.items()))


def told(names: Sequence[str], why: str) -> list[str]:
    """How rows of `whole` are told, in SQL, which costs one call to Spark: with `why` as `reason`."""
    return [*(f"`{name}`" for name in names if name != CORRUPT), f"{why} AS reason"]


def _columns(posts: DataFrame) -> dict[str, Column]:
    columns = {"id": _id(posts), "text": F.col("text").cast("string")}
    if "title" in posts.columns:
        columns["title"] = F.make_valid_utf8(F.col("title").cast("string"))
    if "tags" in posts.columns:
        columns["tags"] = tag_list(posts.schema["tags"].dataType)
    if "lat" in posts.columns and "lon" in posts.columns:
        columns |= {name: _number(name, posts.schema[name].dataType) for name in ("lat", "lon")}
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


def _number(name: str, kind: T.DataType) -> Column:
    """A coordinate: null where there is none, infinite (which is nowhere) where it is not a number."""
    value = F.col(name).try_cast("double")
    missing = F.col(name).isNull() | F.isnan(value)
    if isinstance(kind, T.NumericType):
        return F.when(~missing, value)
    is_empty = F.trim(F.col(name).cast("string")) == ""
    return F.when(missing | is_empty, None).otherwise(F.coalesce(value, F.lit(float("inf"))))


def reason(names: Sequence[str]) -> str:
    """In SQL: the first thing that is wrong with a row whose columns are prepared, in words; null when nothing is."""
    cases = {f"{CORRUPT} IS NOT NULL": "the line cannot be read"} if CORRUPT in names else {}
    cases["text IS NULL"] = "no text"
    cases[f"octet_length(text) > {MAX_TEXT_BYTES}"] = f"text longer than {MAX_TEXT_BYTES:,} bytes"
    cases["NOT is_valid_utf8(text)"] = "text is not valid UTF-8"
    cases["id IS NULL"] = "no id"
    for name, limit in (("lat", 90), ("lon", 180)) if "lat" in names else ():
        cases[f"{name} = double('infinity')"] = f"{name} is not a number"
        cases[f"abs({name}) > {limit}"] = f"{name} is not between -{limit} and {limit}"
    whens = (f"WHEN {when} THEN '{then}'" for when, then in cases.items())
    return f"CASE {' '.join(whens)} END"
