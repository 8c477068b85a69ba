"""The command `correlate`, from files to files: read tags, compute correlations, publish the result atomically."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.batch.input_profile import write_rejected
from tidings.batch.match_files import batch_session, translated_errors
from tidings.batch.staging import Output
from tidings.batch.write import write_parts
from tidings.correlate.audit import Audit
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_routing_pipeline import TagRoutingPipeline
from tidings.ingest.post_files import PostFiles
from tidings.ingest.validation import UNREADABLE_LINE, UNREADABLE_TIME
from tidings.schemas import CORRUPT_RECORD, ORIGIN_FIELDS
from tidings.spark.correlate import CorrelationRun, TaggedInput, correlate, time_in_microseconds
from tidings.spark.post_reader import posts_with_origin, read_posts
from tidings.spark.progress import ProgressCallback, task_progress

_MAX_LISTED_ROWS = 10_000  # rejected rows in the list; all are counted


@dataclass(frozen=True, slots=True)
class CorrelateOptions:
    """Validated options of the command."""

    posts: PostFiles
    output: Output
    settings: CorrelationSettings
    tracked_words: tuple[str, ...] = ()
    lateness_us: int | None = None
    audit: bool = False
    master: str | None = None


@dataclass(frozen=True, slots=True)
class CorrelateResult:
    """The result; `seconds` is the time from the files of posts to the files of coefficients."""

    settings: CorrelationSettings
    tagged: TaggedInput
    pipeline: TagRoutingPipeline
    coefficients: int
    seconds: float
    audit: Audit | None
    out: Path
    rejected_file: Path | None


def correlate_files(options: CorrelateOptions, progress: ProgressCallback) -> CorrelateResult:
    """Run the command. After a TidingsError, OUT is unchanged."""
    output = options.output
    with translated_errors(output.out), output.staging() as staging, batch_session(options.master) as spark:
        posts, start = read_posts(spark, options.posts), time.perf_counter()
        correlation = correlate(
            posts,
            options.settings,
            options.tracked_words,
            options.lateness_us,
            lambda phase: progress(phase, lambda: task_progress(spark)),
        )
        progress("writing", lambda: task_progress(spark))
        write_coefficients(spark, correlation, staging.parts, output.format)
        seconds = time.perf_counter() - start
        if correlation.tagged.untimed + correlation.tagged.unreadable:
            rows = posts_with_origin(spark, options.posts, posts)
            write_rejected(_select_rejected(rows), options.posts.format, staging.rejected)
        audit = None
        if options.audit:
            progress("comparing with the exact result", lambda: task_progress(spark))
            audit = correlation.run_audit()
        progress("publishing the result")
        coefficients, rejected_file = staging.publish()
    return CorrelateResult(
        options.settings,
        correlation.tagged,
        correlation.pipeline,
        coefficients,
        seconds,
        audit,
        output.out,
        rejected_file,
    )


def write_coefficients(spark: SparkSession, correlation: CorrelationRun, folder: Path, kind: str) -> None:
    """Write the coefficients to a new folder: Parquet from Arrow directly, other formats through Spark."""
    if kind == "parquet":
        folder.mkdir()
        batches = correlation.coefficients()
        first = next(batches)
        with pq.ParquetWriter(folder / "part-00000.parquet", first.schema) as file:
            for batch in chain([first], batches):
                file.write_batch(batch)
    else:
        rows = spark.createDataFrame(pa.Table.from_batches(correlation.coefficients())).coalesce(1)
        # CSV has no lists: separate tags by spaces, which they never contain.
        write_parts(rows.withColumn("tags", F.concat_ws(" ", "tags")) if kind == "csv" else rows, folder, kind)


def _select_rejected(posts: DataFrame) -> DataFrame:
    """Select rows without a valid time and unreadable rows, up to a limit."""
    shown = [F.col(name).cast("string") for name in (CORRUPT_RECORD, "text") if name in posts.columns]
    name = F.col("id").cast("string") if "id" in posts.columns else F.lit(None)
    reason = F.lit(UNREADABLE_TIME)
    if CORRUPT_RECORD in posts.columns:
        reason = F.when(F.col(CORRUPT_RECORD).isNotNull(), F.lit(UNREADABLE_LINE)).otherwise(reason)
    excerpt = F.substring(F.coalesce(*shown, F.lit("")), 1, 200)
    rows = posts.where(time_in_microseconds(posts).isNull())
    columns = (name.alias("post_id"), reason.alias("reason"), excerpt.alias("text"))
    return rows.select(*columns, *ORIGIN_FIELDS).limit(_MAX_LISTED_ROWS)
