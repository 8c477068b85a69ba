"""Read files of posts: only the known columns, ids exactly as written, unreadable lines in `_corrupt_record`.

Spark never infers a schema here: inference turns ``007`` into 7, and fails if one line has a key twice.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.errors import InputError
from tidings.ingest.post_files import PostFiles
from tidings.schemas import CORRUPT_RECORD, ORIGIN_FIELDS, POST_FIELDS

READER_SETTINGS = {
    "spark.sql.caseSensitive": "true",  # otherwise a file with `Text` and `text` is an error
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # otherwise Spark rejects the timestamps that pandas writes
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a directory `id=007` stays 007
}
_SAMPLED_LINES = 1000
_GLOB = re.compile(r"([\\{}\[\]*?])")
_DECIMAL = re.compile(r"DECIMAL\((\d+),0\)")
_LONG_DIGITS = 18
_ROW_BITS = (1 << 33) - 1  # of a monotonically increasing id; the others are the partition
_OPEN_COST = "spark.sql.files.openCostInBytes"


def posts_with_origin(spark: SparkSession, files: PostFiles, posts: DataFrame) -> DataFrame:
    """Append the columns of `with_origin` to posts that `read_posts` returned for these files."""
    if files.format != "csv":
        return with_origin(posts, files.format)
    return _read_csv(spark, files, has_origin=True)  # the union of several headers has no metadata of files


def with_origin(posts: DataFrame, file_format: str) -> DataFrame:
    """Append the file of each row, the offset of its split, and its number there, for `ingest.row_lines`.

    The number is that of the row in its file (Parquet) or partition, so run the job in `one_split_per_partition`.
    """
    number = F.monotonically_increasing_id().bitwiseAND(_ROW_BITS)
    row = F.col("_metadata.row_index") if file_format == "parquet" else number
    origin = (F.col("_metadata.file_path"), F.col("_metadata.file_block_start"), row)
    return posts.select("*", *(column.alias(name) for column, name in zip(origin, ORIGIN_FIELDS, strict=True)))


@contextmanager
def one_split_per_partition(spark: SparkSession) -> Iterator[None]:
    """Let Spark read every split of a file in a partition of its own."""
    before = str(spark.conf.get(_OPEN_COST))
    spark.conf.set(_OPEN_COST, str(1 << 40))
    try:
        yield
    finally:
        spark.conf.set(_OPEN_COST, before)


def read_posts(spark: SparkSession, posts: PostFiles) -> DataFrame:
    """Return the posts of the files, lazily. Unreadable rows have their line in `_corrupt_record`."""
    read = {"parquet": _read_parquet, "json": _read_json, "csv": _read_csv}[posts.format]
    frame = read(spark, posts)
    _check_types(frame)
    return frame


def _read_parquet(spark: SparkSession, posts: PostFiles) -> DataFrame:
    reader = _reader(spark, posts).option("mergeSchema", str(len(posts.files) > 1))
    frame = reader.parquet(*_paths(posts.files))
    return frame.select(*(name for name in POST_FIELDS if name in frame.columns))


def _read_csv(spark: SparkSession, posts: PostFiles, has_origin: bool = False) -> DataFrame:
    """Read files with the same header together. All columns are strings."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for file, header in zip(posts.files, posts.headers, strict=True):
        groups.setdefault(header, []).append(file)
    parts = [_read_csv_group(_reader(spark, posts), header, files) for header, files in groups.items()]
    parts = [with_origin(part, posts.format) for part in parts] if has_origin else parts
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def _read_csv_group(reader: DataFrameReader, header: tuple[str, ...], files: list[Path]) -> DataFrame:
    schema = csv_schema(header)
    options = {"header": "true", "multiLine": "true", "escape": '"', "columnPruning": "false", "encoding": "UTF-8"}
    frame = reader.schema(schema).options(**options).csv(_paths(files))
    return frame.select(*(name for name in frame.columns if name in POST_FIELDS), CORRUPT_RECORD)


def csv_schema(header: Sequence[str]) -> T.StructType:
    """Return a schema of strings. Unknown columns get generated names, because theirs may be empty or repeated."""
    names = [name if name in POST_FIELDS else f"_column_{at}" for at, name in enumerate(header)]
    return T.StructType([T.StructField(name, T.StringType()) for name in [*names, CORRUPT_RECORD]])


def _read_json(spark: SparkSession, posts: PostFiles) -> DataFrame:
    """Find the fields and the type of the ids in one pass; then read all fields but the id as strings."""
    types = _json_types(spark, posts)
    schema = T.StructType([T.StructField(name, kind) for name, kind in types.items()])
    frame = _reader(spark, posts).schema(schema.add(CORRUPT_RECORD, T.StringType())).json(_paths(posts.files))
    return parse_json_tags(frame) if "tags" in types else frame


def parse_json_tags(posts: DataFrame) -> DataFrame:
    """Convert `tags` from a JSON list, or from one text with spaces, commas or semicolons, to a list of strings."""
    tags = F.trim("tags")
    listed = F.from_json(tags, "array<string>")
    return posts.withColumn("tags", F.when(tags.startswith("["), listed).otherwise(F.split(tags, r"[\s,;]+")))


def _json_types(spark: SparkSession, posts: PostFiles) -> dict[str, T.DataType]:
    fields = ", ".join(f"{name} {'variant' if name in ('id', 'text') else 'string'}" for name in POST_FIELDS)
    rows = _reader(spark, posts).schema(f"{fields}, {CORRUPT_RECORD} string").json(_paths(posts.files))
    counts = {name: F.count(name) for name in (*POST_FIELDS, CORRUPT_RECORD)}
    types = {name: F.schema_of_variant_agg(name) for name in ("id", "text")}
    seen = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        *(column.alias(name) for name, column in counts.items()),
        *(column.alias(f"type of {name}") for name, column in types.items()),
    ).collect()[0]
    if seen["rows"] and seen[CORRUPT_RECORD] == seen["rows"]:
        raise InputError(f"{posts.files[0]}: none of the {seen['rows']:,} lines is a JSON object.")
    present = [name for name in POST_FIELDS if seen[name] or (name in ("lat", "lon") and seen["lat"] + seen["lon"])]
    if not set(posts.any_of_columns) & set(present):
        _check_required_field(posts, seen["rows"] - seen[CORRUPT_RECORD])
        present.append("text")
    if seen["type of text"].startswith(("OBJECT", "ARRAY")):
        raise InputError(f"{posts.files[0]}: the field `text` contains JSON objects or lists. It must contain strings.")
    return {name: _id_type(seen["type of id"]) if name == "id" else T.StringType() for name in present}


def _id_type(kind: str) -> T.DataType:
    """Return an integer type if it holds all ids exactly, otherwise string: the ids as written."""
    if kind == "BIGINT":
        return T.LongType()
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and int(decimal[1]) > _LONG_DIGITS:  # narrower decimals were written with a point, as in 6.0
        return T.DecimalType(int(decimal[1]), 0)
    return T.StringType()


def _check_required_field(posts: PostFiles, good_rows: int) -> None:
    """Raise InputError if no post has one of the required fields, not even with an empty value."""
    names = {name for file in posts.files for name in _fields(file)} if good_rows else {"text"}
    if not set(posts.any_of_columns) & names:
        existing = ", ".join(sorted(map(repr, names))[:20]) or "none"
        required = " or ".join(f"`{name}`" for name in posts.any_of_columns)
        raise InputError(f"Posts: the field {required} is missing. The fields are: {existing}.")


def _fields(file: Path) -> set[str]:
    """Return the field names in the first lines of the file."""
    names: set[str] = set()
    with gzip.open(file, "rb") if file.suffix.lower() == ".gz" else file.open("rb") as lines:
        for _, line in zip(range(_SAMPLED_LINES), lines, strict=False):
            try:
                names.update(json.loads(line))
            except (ValueError, TypeError, RecursionError):
                continue
    return names


def _check_types(posts: DataFrame) -> None:
    for name, allowed in (("id", T.AtomicType), ("lat", T.NumericType), ("lon", T.NumericType)):
        if name in posts.columns:
            kind = posts.schema[name].dataType
            if not isinstance(kind, (allowed, T.StringType, T.NullType)):
                raise InputError(f"Posts: the column `{name}` has type {kind.simpleString()}, which is not supported.")


def _reader(spark: SparkSession, posts: PostFiles) -> DataFrameReader:
    reader = spark.read.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT_RECORD)
    if posts.base is not None and any("=" in part for file in posts.files for part in file.parts):
        reader = reader.option("basePath", os.path.abspath(posts.base))
    return reader


def local_path(url: str) -> str:
    """Return the path of a `file:` URL, as Spark reports it."""
    return unquote(urlsplit(url).path)


def _paths(files: Iterable[Path]) -> list[str]:
    return [escape_path(file) for file in files]


def escape_path(path: Path) -> str:
    """Return the absolute path with Spark's glob characters escaped."""
    return _GLOB.sub(r"\\\1", os.path.abspath(path))
