"""Where a stream takes its posts from: a directory that grows, or a Kafka topic."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidings.atomic_io import write_whole
from tidings.errors import InputError
from tidings.ingest.post_files import FORMATS, PostFiles, csv_header, find_posts
from tidings.schemas import CORRUPT, POST_FIELDS
from tidings.spark.post_reader import as_written, csv_schema, read_posts, tags_of_json

_LOOK_AGAIN_SECONDS = 0.2
_ANY_AGE = "36500d"  # else a file a week older than the newest one taken (moved there, say) is passed over in silence


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory of files of one format; what the first one looks like decides how all are read."""

    path: Path
    format: str
    schema: T.StructType

    def described(self) -> str:
        return str(self.path)


def first_look(
    spark: SparkSession, path: str, kept: Path, stopped: Callable[[], bool], waits: bool = True
) -> Folder | None:
    """How the files of a directory are read: as they were at the first start (`kept`), else as the first file tells.

    Waits for that file if it is to; None when there is none, or when stopped meanwhile.
    """
    if kept.is_file():
        return _as_kept(path, kept)
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{path}: --posts needs a directory that files are put into, or kafka://SERVERS/TOPIC.")
    while not stopped():
        if first := _first_file(folder):
            look = _look(spark, folder, first)
            _keep(look, kept)
            return look
        if not waits:
            break
        time.sleep(_LOOK_AGAIN_SECONDS)
    return None


def read_folder(spark: SparkSession, folder: Folder, max_posts: int, processed: str = "keep") -> DataFrame:
    """The files as they come, as many a batch as hold about `max_posts` posts, one at least; then kept or deleted."""
    suffixes = ",".join(suffix[1:] for suffix, name in FORMATS.items() if name == folder.format)
    reader = (
        spark.readStream.schema(folder.schema)
        .option("maxBytesPerTrigger", str(max(1, int(max_posts * bytes_a_post(folder)))))
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*.{{{suffixes}}}*")
        .option("cleanSource", {"keep": "off"}.get(processed, processed))
        .option("maxFileAge", _ANY_AGE)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
    )
    if folder.format == "csv":
        reader = reader.options(header="true", multiLine="true", escape='"', encoding="UTF-8")
    posts = getattr(reader, folder.format)(as_written(folder.path))
    return tags_of_json(posts) if folder.format == "json" else posts


def check_headers(folder: Folder, files: Iterable[Path]) -> None:
    """InputError names a CSV file with other columns than the first: Spark goes by their places, not their names."""
    columns = _counting(folder.schema.names[:-1])  # the last is the corrupt record
    for file in files if folder.format == "csv" else ():
        found = _counting(csv_header(file, ()))
        if found and found != columns:
            raise InputError(
                f"{file}: its columns are not those of the first file ({', '.join(filter(None, columns))}, in these "
                "places); put one with the same header in its place, or an empty one to go on without it."
            )


def _counting(names: Iterable[str]) -> list[str | None]:
    """The columns by their places; it does not matter how those are called that do not count."""
    return [name if name in POST_FIELDS else None for name in names]


def _first_file(folder: Path) -> PostFiles | None:
    try:
        found = find_posts(str(folder))
    except InputError:
        if any(not path.name.startswith((".", "_")) for path in folder.rglob("*") if path.is_file()):
            raise
        return None
    full = next((place for place, file in enumerate(found.files) if file.stat().st_size), None)
    if full is None:
        return None
    chosen = slice(full, full + 1)
    return replace(found, files=found.files[chosen], headers=found.headers[chosen], base=None)


def _look(spark: SparkSession, folder: Path, first: PostFiles) -> Folder:
    schema = read_posts(spark, first).schema
    if first.format == "json":
        kinds = {field.name: field.dataType for field in schema.fields}
        fields = [T.StructField(n, kinds.get(n, T.StringType()) if n == "id" else T.StringType()) for n in POST_FIELDS]
        schema = T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])
    elif first.format == "csv":
        schema = csv_schema(first.headers[0])
    return Folder(folder, first.format, schema)


def _keep(folder: Folder, kept: Path) -> None:
    told = {"path": os.path.abspath(folder.path), "format": folder.format, "schema": folder.schema.jsonValue()}
    write_whole(kept, json.dumps(told))


def _as_kept(path: str, kept: Path) -> Folder:
    try:
        told = json.loads(kept.read_text("utf-8"))
        before, folder = told["path"], Folder(Path(path), told["format"], T.StructType.fromJson(told["schema"]))
        if folder.format not in FORMATS.values():
            raise ValueError(folder.format)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise InputError(
            f"{kept}: this file, which says how posts are read, is damaged; remove it and run again: it is made anew "
            "from the first file of posts."
        ) from error
    if before != os.path.abspath(path):
        raise InputError(f"{path}: this state belongs to the posts of {before}; give each source a --state.")
    return folder


def bytes_a_post(folder: Folder) -> float:
    """Measured on the first file that is there; what tweets take where none is."""
    try:
        file = find_posts(str(folder.path)).files[0]
        with file.open("rb") as lines:
            head = lines.read(1 << 20)
        return len(head) / max(1, head.count(b"\n")) if folder.format != "parquet" else 200.0
    except (InputError, OSError):
        return 400.0
