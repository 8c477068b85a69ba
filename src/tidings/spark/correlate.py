"""Correlating on Spark, on one page: parse → partition → disseminate → calculate → track.

Parsing, the P partitioners, the k calculators and the tracker are Spark tasks. There is one disseminator, as in the
paper's experiments: it must see posts in the order of time, so it runs in the driver, on packed tag numbers.
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
from tidings.correlate.audit import Audit, audit, centralised
from tidings.correlate.partition.plan import TagPlan
from tidings.correlate.partition.registry import merge
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.tag_routing_pipeline import Dissemination, MakePlan, in_this_process
from tidings.correlate.tag_vocabulary import Vocabulary
from tidings.correlate.time_slices import Stretch, stretches
from tidings.correlate.tracker import Reports, tracked
from tidings.correlate.watermark import Arrivals
from tidings.errors import InputError
from tidings.schemas import CORRUPT
from tidings.spark import correlate_stages as stages
from tidings.spark.post_columns import tag_list

_PARTED = pa.schema([("partitioner", pa.int32()), ("blob", pa.binary())])
_A_STRETCH = 250_000  # notifications: a tenth of a second for calculators, several times what such a job costs
_WORTH_TASKS = 30_000  # tag sets: some ten milliseconds for a partitioner, a tenth of what a Spark job costs
_ROWS_OUT = 1 << 18
_SECONDS, _MILLIS, _MICROS = 10**11, 10**14, 10**17  # numbers below these are seconds, milliseconds, microseconds


@dataclass(frozen=True, slots=True)
class Tagged:
    """All tagged posts in the order of time, what their tags are called, and what became of the other rows."""

    posts: TaggedPosts
    vocabulary: Vocabulary
    rows: int
    unreadable: int
    untimed: int
    late: int
    capped: int


@dataclass(frozen=True, slots=True)
class Correlation:
    """The coefficients, with the numbers of their tags, and how they came about."""

    reports: Reports
    tagged: Tagged
    dissemination: Dissemination
    settings: Settings

    def coefficients(self) -> Iterator[pa.RecordBatch]:
        """As they are written: times as times, tags by name."""
        names = self.tagged.vocabulary.column()
        for first in range(0, max(1, len(self.reports)), _ROWS_OUT):
            rows = np.arange(first, min(first + _ROWS_OUT, len(self.reports)))
            yield wire.spelt(self.reports.take(rows), names, self.settings.slide_us, self.settings.panes)

    def audited(self) -> Audit:
        """Compare with one calculator that sees everything."""
        return audit(self.reports, centralised(self.tagged.posts, self.settings, self.settings.min_support))


def correlate(
    posts: DataFrame,
    settings: Settings,
    tracked_words: tuple[str, ...] = (),
    lateness_us: int | None = None,
    note: Callable[[str], None] = lambda phase: None,
) -> Correlation:
    """Track the correlations of the tags in `posts`. Calculators work while later posts are still disseminated."""
    spark = posts.sparkSession
    note("reading tags")
    tagged = read_tagged(posts, tracked_words, lateness_us)
    note("disseminating and calculating")
    dissemination = Dissemination(settings, on_spark(spark, settings))
    told = stretches(dissemination.take(tagged.posts), settings.catch_up, _A_STRETCH)
    calculating = ThreadPoolExecutor(1)
    try:
        found = [calculating.submit(_tracked, spark.sparkContext, stretch, settings) for stretch in told]
        reports = Reports.together([one.result() for one in found])
    finally:
        calculating.shutdown(cancel_futures=True)  # whatever went wrong, nothing goes on behind it
    return Correlation(reports, tagged, dissemination, settings)


def _tracked(context: SparkContext, stretch: Stretch, settings: Settings) -> Reports:
    """What the calculators report about a stretch of time; they are Spark tasks, the tracker is here.

    A task has the same calculators whatever part of an RDD it is, so nothing depends on how Spark cuts it.
    """
    tasks = min(settings.partitions, max(1, context.defaultParallelism))
    shares: list[list[stages.Told]] = [[] for _ in range(tasks)]
    for one in sorted(stretch.told, key=attrgetter("calculator")):  # stable: what one is told stays in its order
        share = shares[one.calculator * tasks // settings.partitions]
        share.append((one.calculator, one.plan, wire.pack_told(one)))
    reported = context.parallelize(shares, tasks).map(stages.calculate(settings, stretch.until)).collect()
    return tracked(Reports.together([wire.unpack_reports(wire.buffer(one)) for one in reported]))


def read_tagged(posts: DataFrame, tracked_words: tuple[str, ...], lateness_us: int | None) -> Tagged:
    """Parse the posts on Spark and number their tags here; arrival is the order of the files."""
    parsed = with_times(posts).mapInArrow(stages.parse(tracked_words), stages.PARSED).toArrow().sort_by("batch")
    vocabulary, arrivals, parts = Vocabulary(), Arrivals(lateness_us), []
    for names, packed in zip(parsed["names"], parsed["blob"], strict=True):
        found = wire.unpack_posts(names.as_py(), packed.as_buffer())
        parts.append(arrivals.on_time(vocabulary.numbered(found)))
    counts = {name: sum(parsed[name].to_pylist()) for name in ("rows", "unreadable", "untimed", "capped")}
    whole = TaggedPosts.together(parts).in_order()
    return Tagged(whole, vocabulary, **counts, late=arrivals.late)


def with_times(posts: DataFrame, *others: str) -> DataFrame:
    """What the parser reads: `time` in microseconds, `text`, `title`, `tags` where present, `unreadable`; others."""
    unreadable = F.col(CORRUPT).isNotNull() if CORRUPT in posts.columns else F.lit(False)
    columns = {"time": microseconds(posts), "unreadable": unreadable}
    for name in ("text", "title"):
        if name in posts.columns:
            columns[name] = F.col(name).cast("string")
    if "tags" in posts.columns:
        kind = posts.schema["tags"].dataType
        # A list of strings goes as it is: the parser minds bytes that are no UTF-8, Spark looks at them one by one.
        columns["tags"] = F.col("tags") if kind == T.ArrayType(T.StringType()) else tag_list(kind)
    return posts.select(*(column.alias(name) for name, column in columns.items()), *others)


def microseconds(posts: DataFrame) -> Column:
    """The time of a post: as it came, or as ISO 8601, or as a number since 1970 whose size tells its unit."""
    if "time" not in posts.columns:
        if posts.isEmpty():  # an empty file has no columns at all
            return F.lit(None).cast("bigint")
        found = ", ".join(name for name in posts.columns if name != CORRUPT)
        raise InputError(f"Posts need a column `time` to be put into windows; these have: {found}.")
    time, kind = F.col("time"), posts.schema["time"].dataType
    if isinstance(kind, (T.TimestampType, T.DateType, T.TimestampNTZType)):
        return F.unix_micros(time.cast("timestamp"))
    number = time.try_cast("bigint")
    size = F.abs(number)
    counted = (
        F.when(size < _SECONDS, number * 1_000_000)
        .when(size < _MILLIS, number * 1_000)
        .when(size < _MICROS, number)
        .otherwise((number / 1_000).cast("bigint"))
    )
    written = F.unix_micros(time.cast("string").try_cast("timestamp"))
    return F.coalesce(counted, written) if isinstance(kind, T.StringType) else counted


def on_spark(spark: SparkSession, settings: Settings) -> MakePlan:
    """The P partitioners side by side as Spark tasks, each on its share of the sample; the merger here.

    A sample that takes less time than starting tasks is partitioned here, in the same P shares: the plan is the same.
    """

    here = in_this_process(settings)

    def make(sample: TagSets, partitions: int) -> TagPlan:
        if len(sample) < _WORTH_TASKS:
            return here(sample, partitions)
        shares = [wire.pack_sets(share).to_pybytes() for share in sample.shares(settings.partitioners)]
        rows = pa.table([pa.array(range(len(shares)), pa.int32()), pa.array(shares, pa.binary())], schema=_PARTED)
        placed = spark.createDataFrame(rows).repartitionById(settings.partitioners, "partitioner")
        stage = stages.partition_share(partitions, settings.algorithm, settings.seed)
        pieces = placed.mapInArrow(stage, stages.PIECES).toArrow().sort_by("partitioner")["blob"]
        return merge(
            [wire.unpack_sets(one.as_buffer()) for one in pieces], partitions, settings.algorithm, settings.seed
        )

    return make
