"""Correlate tags with a batch job on Spark: parse → partition → route → calculate → track.

Parsing, the P Partitioners and the k Calculators are Spark tasks. There is one tag router (the Disseminator), as in
the experiments of the paper: it needs the posts in the order of time, so it runs in the driver, on tag ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.correlate import wire
from tidings.correlate.audit import Audit, audit, compute_exact
from tidings.correlate.partition.plan import TagPlan
from tidings.correlate.partition.registry import merge_partitions
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_routing_pipeline import TagPlanner, TagRoutingPipeline, local_planner
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings.correlate.time_slices import TimeSlice, split_at_plans
from tidings.correlate.tracker import Reports, choose_reports
from tidings.correlate.watermark import Watermark
from tidings.errors import InputError
from tidings.schemas import CORRUPT_RECORD
from tidings.spark import correlate_stages as stages
from tidings.spark.post_columns import tag_list_column

_SAMPLES = pa.schema([("partitioner", pa.int32()), ("blob", pa.binary())])
_SLICE_NOTIFICATIONS = 250_000  # 0.1 s of work for calculators, several times the cost of a Spark job
_SPARK_MIN_TAGSETS = 30_000  # about 10 ms of work for a partitioner, a tenth of the cost of a Spark job
_BATCH_ROWS = 1 << 18
# Times below these numbers are in seconds, milliseconds and microseconds; larger ones in nanoseconds.
_MAX_SECONDS, _MAX_MILLIS, _MAX_MICROS = 10**11, 10**14, 10**17


@dataclass(frozen=True, slots=True)
class TaggedInput:
    """All tagged posts in the order of time, the names of their tags, and the numbers of rows left out."""

    posts: TaggedPosts
    vocabulary: TagVocabulary
    rows: int
    unreadable: int
    untimed: int
    late: int
    capped: int


@dataclass(frozen=True, slots=True)
class CorrelationRun:
    """The coefficients by tag id, the input, and the statistics of the routing."""

    reports: Reports
    tagged: TaggedInput
    pipeline: TagRoutingPipeline
    settings: CorrelationSettings

    def coefficients(self) -> Iterator[pa.RecordBatch]:
        """Yield the coefficients as they are written: timestamps, and tags by name."""
        names = self.tagged.vocabulary.to_arrow()
        for first in range(0, max(1, len(self.reports)), _BATCH_ROWS):
            rows = np.arange(first, min(first + _BATCH_ROWS, len(self.reports)))
            yield wire.to_record_batch(self.reports.take(rows), names, self.settings.slide_us, self.settings.panes)

    def run_audit(self) -> Audit:
        """Compare with a centralised calculator."""
        return audit(self.reports, compute_exact(self.tagged.posts, self.settings, self.settings.min_support))


def correlate(
    posts: DataFrame,
    settings: CorrelationSettings,
    tracked_words: tuple[str, ...] = (),
    lateness_us: int | None = None,
    report: Callable[[str], None] = lambda phase: None,
) -> CorrelationRun:
    """Compute the correlations of the tags in `posts`. Calculators run while later posts are routed."""
    spark = posts.sparkSession
    report("reading tags")
    tagged = read_tagged_posts(posts, tracked_words, lateness_us)
    report("routing and calculating")
    pipeline = TagRoutingPipeline(settings, spark_plan_maker(spark, settings))
    slices = split_at_plans(pipeline.route(tagged.posts), settings.catch_up, _SLICE_NOTIFICATIONS)
    executor = ThreadPoolExecutor(1)
    try:
        futures = [executor.submit(_calculate_slice, spark.sparkContext, time_slice, settings) for time_slice in slices]
        reports = Reports.concat([future.result() for future in futures])
    finally:
        executor.shutdown(cancel_futures=True)  # after an error, no job continues in the background
    return CorrelationRun(reports, tagged, pipeline, settings)


def _calculate_slice(context: SparkContext, time_slice: TimeSlice, settings: CorrelationSettings) -> Reports:
    """Run the Calculators of a time slice as Spark tasks, and the Tracker here.

    Each element of the RDD has its own calculators, so the result does not depend on how Spark partitions it.
    """
    tasks = min(settings.partitions, max(1, context.defaultParallelism))
    shares: list[list[stages.PackedNotification]] = [[] for _ in range(tasks)]
    for notification in sorted(time_slice.notifications, key=attrgetter("calculator")):  # stable: keeps their order
        share = shares[notification.calculator * tasks // settings.partitions]
        share.append((notification.calculator, notification.plan, wire.pack_notifications(notification)))
    reported = context.parallelize(shares, tasks).map(stages.calculate(settings, time_slice.until)).collect()
    return choose_reports(Reports.concat([wire.unpack_reports(pa.py_buffer(packed)) for packed in reported]))


def read_tagged_posts(posts: DataFrame, tracked_words: tuple[str, ...], lateness_us: int | None) -> TaggedInput:
    """Parse posts on Spark and assign tag ids in the driver. Posts arrive in the order of the files."""
    parsed = (
        select_parser_columns(posts)
        .mapInArrow(stages.parse(tracked_words), stages.PARSED_SCHEMA)
        .toArrow()
        .sort_by("batch")
    )
    vocabulary, arrivals, parts = TagVocabulary(), Watermark(lateness_us), []
    for names, packed in zip(parsed["names"], parsed["blob"], strict=True):
        parsed_posts = wire.unpack_posts(names.as_py(), packed.as_buffer())
        parts.append(arrivals.drop_late(vocabulary.renumber_posts(parsed_posts)))
    counts = {name: sum(parsed[name].to_pylist()) for name in ("rows", "unreadable", "untimed", "capped")}
    whole = TaggedPosts.concat(parts).sort_by_time()
    return TaggedInput(whole, vocabulary, **counts, late=arrivals.late)


def select_parser_columns(posts: DataFrame, *others: str) -> DataFrame:
    """Select what the parser reads: `time` (µs), `text`, `title`, `tags` where present, `unreadable`; and others."""
    unreadable = F.col(CORRUPT_RECORD).isNotNull() if CORRUPT_RECORD in posts.columns else F.lit(False)
    columns = {"time": time_in_microseconds(posts), "unreadable": unreadable}
    for name in ("text", "title"):
        if name in posts.columns:
            columns[name] = F.col(name).cast("string")
    if "tags" in posts.columns:
        kind = posts.schema["tags"].dataType
        # Lists of strings are passed unchanged: the parser handles invalid UTF-8 faster than Spark does.
        columns["tags"] = F.col("tags") if kind == T.ArrayType(T.StringType()) else tag_list_column(kind)
    return posts.select(*(column.alias(name) for name, column in columns.items()), *others)


def time_in_microseconds(posts: DataFrame) -> Column:
    """Return the time of posts: a timestamp, ISO 8601, or a number since 1970 whose magnitude gives its unit."""
    if "time" not in posts.columns:
        if posts.isEmpty():  # an empty file has no columns at all
            return F.lit(None).cast("bigint")
        columns = ", ".join(name for name in posts.columns if name != CORRUPT_RECORD)
        raise InputError(f"Posts: the column `time` is missing, which windows need. The columns are: {columns}.")
    time, kind = F.col("time"), posts.schema["time"].dataType
    if isinstance(kind, (T.TimestampType, T.DateType, T.TimestampNTZType)):
        return F.unix_micros(time.cast("timestamp"))
    number = time.try_cast("bigint")
    size = F.abs(number)
    from_number = (
        F.when(size < _MAX_SECONDS, number * 1_000_000)
        .when(size < _MAX_MILLIS, number * 1_000)
        .when(size < _MAX_MICROS, number)
        .otherwise((number / 1_000).cast("bigint"))
    )
    from_text = F.unix_micros(time.cast("string").try_cast("timestamp"))
    return F.coalesce(from_number, from_text) if isinstance(kind, T.StringType) else from_number


def spark_plan_maker(spark: SparkSession, settings: CorrelationSettings) -> TagPlanner:
    """Return a function that runs the P Partitioners as Spark tasks on parts of the sample, and the Merger here.

    A sample that takes less time than starting tasks is partitioned here, in the same P parts: same plan.
    """

    make_in_process = local_planner(settings)

    def make(sample: TagSets, partitions: int) -> TagPlan:
        if len(sample) < _SPARK_MIN_TAGSETS:
            return make_in_process(sample, partitions)
        shares = [wire.pack_sets(share).to_pybytes() for share in sample.split_by_hash(settings.partitioners)]
        rows = pa.table([pa.array(range(len(shares)), pa.int32()), pa.array(shares, pa.binary())], schema=_SAMPLES)
        assigned = spark.createDataFrame(rows).repartitionById(settings.partitioners, "partitioner")
        stage = stages.partition_sample(partitions, settings.algorithm, settings.seed)
        pieces = assigned.mapInArrow(stage, stages.PIECES_SCHEMA).toArrow().sort_by("partitioner")["blob"]
        return merge_partitions(
            [wire.unpack_sets(piece.as_buffer()) for piece in pieces], partitions, settings.algorithm, settings.seed
        )

    return make
