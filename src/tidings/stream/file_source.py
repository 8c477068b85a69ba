"""Posts from a directory that grows: infer the schema once, read new files as a stream, check the files of a batch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidings.atomic_io import write_atomically
from tidings.errors import InputError
from tidings.ingest.post_files import FORMAT_OF_SUFFIX, PostFiles, find_post_files, read_csv_header
from tidings.schemas import CORRUPT_RECORD, POST_FIELDS
from tidings.spark.post_reader import csv_schema, escape_path, parse_json_tags, read_posts

_POLL_S = 0.2
_ANY_AGE = "36500d"  # by default Spark skips files a week older than the newest one it has read
_TWEET_BYTES, _PARQUET_TWEET_BYTES = 400.0, 200.0
_PARQUET = (".parquet", ".pq")
_COMPRESSED, _COMPRESSION_RATIO = (".gz", *_PARQUET), 8


@dataclass(frozen=True, slots=True)
class PostDirectory:
    """A directory of post files of one format. The first file determines the schema of all."""

    path: Path
    format: str
    schema: T.StructType


def infer_or_load_schema(
    spark: SparkSession,
    path: str,
    schema_file: Path,
    is_stopped: Callable[[], bool],
    waits: bool = True,
    on_wait: Callable[[], None] = lambda: None,
) -> PostDirectory | None:
    """Return how to read a directory: as saved in `schema_file`, or inferred from its first file and then saved.

    Waits for a first file if `waits`, and calls `on_wait` then. Returns None if there is no file, or when stopped.
    """
    if schema_file.is_file():
        return _load_schema(path, schema_file)
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"--posts {path}: not a directory. Give a directory of post files or kafka://SERVERS/TOPIC.")
    while not is_stopped():
        if first := _first_file(folder):
            directory = _infer(spark, folder, first)
            _save_schema(directory, schema_file)
            return directory
        if not waits:
            break
        on_wait()
        time.sleep(_POLL_S)
    return None


def stream_files(spark: SparkSession, directory: PostDirectory, max_posts: int, clean_source: str = "off") -> DataFrame:
    """Read new files as a stream. A batch gets at least one file, and not more than about `max_posts` posts."""
    suffixes = ",".join(suffix[1:] for suffix, name in FORMAT_OF_SUFFIX.items() if name == directory.format)
    reader = (
        spark.readStream.schema(directory.schema)
        .options(**_reader_options(directory))
        .option("maxBytesPerTrigger", str(max(1, int(max_posts * estimate_post_bytes(directory)))))
        .option("pathGlobFilter", f"*.{{{suffixes}}}*")
        .option("cleanSource", clean_source)
        .option("maxFileAge", _ANY_AGE)
    )
    posts = getattr(reader, directory.format)(escape_path(directory.path))
    return parse_json_tags(posts) if directory.format == "json" else posts


def read_files(spark: SparkSession, directory: PostDirectory, files: Sequence[Path]) -> DataFrame:
    """Read some files of the directory as the stream does."""
    reader = spark.read.schema(directory.schema).options(**_reader_options(directory))
    posts: DataFrame = reader.format(directory.format).load([escape_path(file) for file in files])
    return parse_json_tags(posts) if directory.format == "json" else posts


def _reader_options(directory: PostDirectory) -> dict[str, str]:
    options = {
        "recursiveFileLookup": "true",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT_RECORD,
    }
    csv = {"header": "true", "multiLine": "true", "escape": '"', "encoding": "UTF-8"}
    return options | (csv if directory.format == "csv" else {})


def check_headers(directory: PostDirectory, files: Iterable[Path]) -> None:
    """Raise InputError if the columns of a CSV file differ from the first file: Spark reads columns by position."""
    expected = _known_columns(directory.schema.names[:-1])  # the last one is the corrupt record
    for file in files if directory.format == "csv" else ():
        columns = _known_columns(read_csv_header(file, ()))
        if columns and columns != expected:
            raise InputError(
                f"{file}: its columns differ from those of the first file ({', '.join(filter(None, expected))}, in "
                "this order). Replace it with a file that has the same header, or with an empty file to skip it."
            )


def estimate_post_bytes(directory: PostDirectory) -> float:
    """Return the bytes per post, measured on a file; the size of a tweet if there is no file."""
    if directory.format == "parquet":
        return _PARQUET_TWEET_BYTES
    with suppress(OSError):
        if (file := _find_any_file(directory)) is not None:
            with file.open("rb") as lines:
                head = lines.read(1 << 20)
            return len(head) / max(1, head.count(b"\n"))
    return _TWEET_BYTES


def _find_any_file(directory: PostDirectory) -> Path | None:
    """Return a file of posts that is not empty; None without one. Not the first: a list of all would take long."""
    suffixes = {suffix for suffix, name in FORMAT_OF_SUFFIX.items() if name == directory.format}
    for parent, folders, names in os.walk(directory.path):
        folders[:] = [name for name in folders if name[0] not in "._"]
        for name in names:
            file = Path(parent, name)
            if name[0] not in "._" and suffixes & set(file.suffixes) and file.stat().st_size:
                return file
    return None


def estimate_input_bytes(files: Iterable[Path]) -> int:
    """Return the approximate uncompressed size of files."""
    return sum(map(_estimate_file_bytes, files))


def _estimate_file_bytes(file: Path) -> int:
    if file.suffix in _PARQUET:
        with suppress(pa.ArrowException):  # Spark reports what is wrong with the file
            metadata = pq.read_metadata(file)
            return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return file.stat().st_size * (_COMPRESSION_RATIO if file.suffix in _COMPRESSED else 1)


def _known_columns(names: Iterable[str]) -> list[str | None]:
    """Return post fields by position, None for columns that are not read."""
    return [name if name in POST_FIELDS else None for name in names]


def _first_file(folder: Path) -> PostFiles | None:
    """Return the first file that is not empty."""
    try:
        posts = find_post_files(str(folder))
    except InputError:
        if any(not path.name.startswith((".", "_")) for path in folder.rglob("*") if path.is_file()):
            raise
        return None
    first = next((number for number, file in enumerate(posts.files) if file.stat().st_size), None)
    if first is None:
        return None
    chosen = slice(first, first + 1)
    return replace(posts, files=posts.files[chosen], headers=posts.headers[chosen], base=None)


def _infer(spark: SparkSession, folder: Path, first: PostFiles) -> PostDirectory:
    schema = read_posts(spark, first).schema
    if first.format == "json":
        kinds = {field.name: field.dataType for field in schema.fields}
        fields = [T.StructField(n, kinds.get(n, T.StringType()) if n == "id" else T.StringType()) for n in POST_FIELDS]
        schema = T.StructType([*fields, T.StructField(CORRUPT_RECORD, T.StringType())])
    elif first.format == "csv":
        schema = csv_schema(first.headers[0])
    return PostDirectory(folder, first.format, schema)


def _save_schema(directory: PostDirectory, schema_file: Path) -> None:
    path = os.path.abspath(directory.path)
    content = {"path": path, "format": directory.format, "schema": directory.schema.jsonValue()}
    write_atomically(schema_file, json.dumps(content))


def _load_schema(path: str, schema_file: Path) -> PostDirectory:
    try:
        content = json.loads(schema_file.read_text("utf-8"))
        saved_path, schema = content["path"], T.StructType.fromJson(content["schema"])
        directory = PostDirectory(Path(path), content["format"], schema)
        if directory.format not in FORMAT_OF_SUFFIX.values():
            raise ValueError(directory.format)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise InputError(
            f"{schema_file}: this file with the schema of the posts is damaged. Remove it and run again: it is created "
            "again from the first post file."
        ) from error
    if saved_path != os.path.abspath(path):
        raise InputError(f"{path}: this state belongs to the posts of {saved_path}. Use one --state per source.")
    return directory
