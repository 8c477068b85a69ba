"""Files of posts as a DataFrame: only the columns that count, ids exactly as written, unreadable lines kept aside.

Spark is never left to guess a schema: its guesses turn ``007`` into 7, and one line with a key twice ends them.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.errors import InputError
from tidings.ingest.post_files import PostFiles
from tidings.schemas import CORRUPT, POST_FIELDS

SETTINGS = {
    "spark.sql.caseSensitive": "true",  # else `Text` beside `text` is an error
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else Spark refuses what pandas writes for times
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a folder `id=007` stays 007
}
_SNIFFED_LINES = 1000
_GLOB = re.compile(r"([\\{}\[\]*?])")
_DECIMAL = re.compile(r"DECIMAL\((\d+),0\)")
_LONG_DIGITS = 18


def read_posts(spark: SparkSession, posts: PostFiles) -> DataFrame:
    """The posts of the files, lazily; rows that cannot be read have their line in `_corrupt_record`."""
    read = {"parquet": _read_parquet, "json": _read_json, "csv": _read_csv}[posts.format]
    found = read(spark, posts)
    _check_types(found)
    return found


def _read_parquet(spark: SparkSession, posts: PostFiles) -> DataFrame:
    reader = _reader(spark, posts).option("mergeSchema", str(len(posts.files) > 1))
    found = reader.parquet(*_paths(posts.files))
    return found.select(*(name for name in POST_FIELDS if name in found.columns))


def _read_csv(spark: SparkSession, posts: PostFiles) -> DataFrame:
    """All columns are strings. Files with the same header are read together, whatever the others look like."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for file, header in zip(posts.files, posts.headers, strict=True):
        groups.setdefault(header, []).append(file)
    parts = [_read_csv_group(_reader(spark, posts), header, files) for header, files in groups.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _read_csv_group(reader: DataFrameReader, header: tuple[str, ...], files: list[Path]) -> DataFrame:
    schema = csv_schema(header)
    options = {"header": "true", "multiLine": "true", "escape": '"', "columnPruning": "false", "encoding": "UTF-8"}
    found = reader.schema(schema).options(**options).csv(_paths(files))
    return found.select(*(name for name in found.columns if name in POST_FIELDS), CORRUPT)


def csv_schema(header: Sequence[str]) -> T.StructType:
    """All columns are strings; those that do not count may be named twice or not at all, so they get names of ours."""
    names = [name if name in POST_FIELDS else f"_column_{at}" for at, name in enumerate(header)]
    return T.StructType([T.StructField(name, T.StringType()) for name in [*names, CORRUPT]])


def _read_json(spark: SparkSession, posts: PostFiles) -> DataFrame:
    """One pass tells which fields occur and what the ids are; then all but the id is read as a string."""
    kinds = _json_kinds(spark, posts)
    schema = T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    found = _reader(spark, posts).schema(schema.add(CORRUPT, T.StringType())).json(_paths(posts.files))
    return tags_of_json(found) if "tags" in kinds else found


def tags_of_json(posts: DataFrame) -> DataFrame:
    """Posts whose `tags` were read as a string of JSON, with a list of tags instead."""
    return posts.withColumn("tags", _tags())


def _json_kinds(spark: SparkSession, posts: PostFiles) -> dict[str, T.DataType]:
    kinds = ", ".join(f"{name} {'variant' if name in ('id', 'text') else 'string'}" for name in POST_FIELDS)
    rows = _reader(spark, posts).schema(f"{kinds}, {CORRUPT} string").json(_paths(posts.files))
    counts = {name: F.count(name) for name in (*POST_FIELDS, CORRUPT)}
    kinds_of = {name: F.schema_of_variant_agg(name) for name in ("id", "text")}
    seen = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        *(column.alias(name) for name, column in counts.items()),
        *(column.alias(f"kind of {name}") for name, column in kinds_of.items()),
    ).collect()[0]
    if seen["rows"] and seen[CORRUPT] == seen["rows"]:
        raise InputError(f"{posts.files[0]}: none of the {seen['rows']:,} lines is a JSON object.")
    present = [name for name in POST_FIELDS if seen[name] or (name in ("lat", "lon") and seen["lat"] + seen["lon"])]
    if not set(posts.needs) & set(present):
        _check_has_any(posts, seen["rows"] - seen[CORRUPT])
        present.append("text")
    if seen["kind of text"].startswith(("OBJECT", "ARRAY")):
        raise InputError(f"{posts.files[0]}: the field `text` holds JSON objects or lists, not text.")
    return {name: _id_kind(seen["kind of id"]) if name == "id" else T.StringType() for name in present}


def _id_kind(kind: str) -> T.DataType:
    """Integers stay integers while a column can hold them exactly; everything else is kept as it was written."""
    if kind == "BIGINT":
        return T.LongType()
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and int(decimal[1]) > _LONG_DIGITS:  # a narrower one was written with a point, as in 6.0
        return T.DecimalType(int(decimal[1]), 0)
    return T.StringType()


def _check_has_any(posts: PostFiles, good_rows: int) -> None:
    """No post has a text: is there such a field at all?"""
    names = {name for file in posts.files for name in _fields(file)} if good_rows else {"text"}
    if not set(posts.needs) & names:
        shown = ", ".join(sorted(map(repr, names))[:20]) or "none"
        wanted = " or ".join(f"`{name}`" for name in posts.needs)
        raise InputError(f"Posts need a field {wanted}; the fields found are: {shown}.")


def _fields(file: Path) -> set[str]:
    """The names that occur in the first lines of the file."""
    names: set[str] = set()
    with gzip.open(file, "rb") if file.suffix.lower() == ".gz" else file.open("rb") as lines:
        for _, line in zip(range(_SNIFFED_LINES), lines, strict=False):
            try:
                names.update(json.loads(line))
            except (ValueError, TypeError, RecursionError):
                continue
    return names


def _tags() -> Column:
    """A list of tags, whether they were given as a list or as one text with spaces or commas."""
    tags = F.trim("tags")
    listed = F.from_json(tags, T.ArrayType(T.StringType()))
    return F.when(tags.startswith("["), listed).otherwise(F.split(tags, r"[\s,;]+"))


def _check_types(posts: DataFrame) -> None:
    for name, allowed in (("id", T.AtomicType), ("lat", T.NumericType), ("lon", T.NumericType)):
        if name in posts.columns:
            kind = posts.schema[name].dataType
            if not isinstance(kind, (allowed, T.StringType, T.NullType)):
                raise InputError(f"The column `{name}` of the posts holds {kind.simpleString()}, which it cannot be.")


def _reader(spark: SparkSession, posts: PostFiles) -> DataFrameReader:
    reader = spark.read.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    if posts.base is not None and any("=" in part for file in posts.files for part in file.parts):
        reader = reader.option("basePath", os.path.abspath(posts.base))
    return reader


def _paths(files: Iterable[Path]) -> list[str]:
    """Absolute, and with nothing in them that Spark would take for a pattern."""
    return [as_written(file) for file in files]


def as_written(path: Path) -> str:
    """The path as Spark finds it and nothing else."""
    return _GLOB.sub(r"\\\1", os.path.abspath(path))
