"""`tidings correlate` from files to files: read the tags, track their correlations, publish the result whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.batch.input_profile import rejected_line
from tidings.batch.match_files import Note, started, told_in_words
from tidings.batch.staging import Output
from tidings.batch.write import write_matches
from tidings.correlate.audit import Audit
from tidings.correlate.settings import Settings
from tidings.correlate.tag_routing_pipeline import Dissemination
from tidings.ingest.post_files import PostFiles
from tidings.schemas import CORRUPT
from tidings.spark.correlate import Correlation, Tagged, correlate, microseconds
from tidings.spark.post_reader import read_posts
from tidings.spark.progress import running_tasks

_LISTED = 10_000  # rows that cannot be used are listed up to here; all are counted


@dataclass(frozen=True, slots=True)
class CorrelateRequest:
    """What to correlate, and how; everything in it has been checked."""

    posts: PostFiles
    output: Output
    settings: Settings
    tracked_words: tuple[str, ...] = ()
    lateness_us: int | None = None
    audit: bool = False
    master: str | None = None


@dataclass(frozen=True, slots=True)
class Correlated:
    """What came of it; `seconds` is everything from the files of posts to the files of coefficients."""

    settings: Settings
    tagged: Tagged
    dissemination: Dissemination
    coefficients: int
    seconds: float
    audit: Audit | None
    out: Path
    rejected_file: Path | None


def correlate_files(request: CorrelateRequest, note: Note) -> Correlated:
    """Run it. A TidingsError says in one sentence what went wrong; OUT is then as it was before."""
    output = request.output
    with told_in_words(output.out), output.staged() as staging, started(request.master) as spark:
        posts, start = read_posts(spark, request.posts), time.perf_counter()
        found = correlate(
            posts,
            request.settings,
            request.tracked_words,
            request.lateness_us,
            lambda phase: note(phase, lambda: running_tasks(spark)),
        )
        note("writing", lambda: running_tasks(spark))
        write_coefficients(spark, found, staging.parts, output.format)
        seconds = time.perf_counter() - start
        if found.tagged.untimed + found.tagged.unreadable:
            _list_rejected(posts, staging.rejected)
        audit = None
        if request.audit:
            note("comparing with the exact result", lambda: running_tasks(spark))
            audit = found.audited()
        note("putting the result in place", None)
        coefficients, listed = staging.publish()
    return Correlated(
        request.settings, found.tagged, found.dissemination, coefficients, seconds, audit, output.out, listed
    )


def write_coefficients(spark: SparkSession, found: Correlation, folder: Path, kind: str) -> None:
    """Into a new folder. They are here, in Arrow: Parquet takes them as they are, the other formats Spark knows."""
    if kind == "parquet":
        folder.mkdir()
        batches = found.coefficients()
        first = next(batches)
        with pq.ParquetWriter(folder / "part-00000.parquet", first.schema) as file:
            for batch in chain([first], batches):
                file.write_batch(batch)
    else:
        rows = spark.createDataFrame(pa.Table.from_batches(found.coefficients())).coalesce(1)
        # CSV has no lists: tags, which hold no spaces, are separated by them.
        write_matches(rows.withColumn("tags", F.concat_ws(" ", "tags")) if kind == "csv" else rows, folder, kind)


def _list_rejected(posts: DataFrame, file: Path) -> None:
    """The rows without a time that can be read, and those that cannot be read at all, one JSON object a line."""
    shown = [F.col(name).cast("string") for name in (CORRUPT, "text") if name in posts.columns]
    name = F.col("id").cast("string") if "id" in posts.columns else F.lit(None)
    reason = F.lit("no time that can be read")
    if CORRUPT in posts.columns:
        reason = F.when(F.col(CORRUPT).isNotNull(), F.lit("the line cannot be read")).otherwise(reason)
    bad = posts.where(microseconds(posts).isNull()).select(
        name.alias("id"), reason.alias("reason"), F.substring(F.coalesce(*shown, F.lit("")), 1, 200).alias("text")
    )
    with file.open("a", encoding="utf-8") as lines:
        for row in bad.limit(_LISTED).toLocalIterator():
            lines.write(rejected_line("post", row["id"], None, row["reason"], row["text"]))
