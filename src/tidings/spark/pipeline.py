"""The pipeline on one page: analyze → route → match → remove duplicates. DataFrame in and out, batch or streaming."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tidings.index.reader import Index
from tidings.ingest.validation import reject_reason_sql
from tidings.matching import dedup
from tidings.routing import wire
from tidings.spark import post_columns, stages
from tidings.spark.accumulators import ReportLoads, RoutingOptions, with_metrics
from tidings.spark.arrow_blobs import Stage
from tidings.spark.results import OpenWriter, choose_writer
from tidings.spark.session import count_cores
from tidings.spark.spill import SPILLED_ROWS
from tidings.spark.worker_state import IndexRef

_SEND_ALL = RoutingOptions()


def match_posts(
    posts: DataFrame,
    index: Index,
    ref: IndexRef,
    report: ReportLoads | None = None,
    routing: RoutingOptions = _SEND_ALL,
) -> DataFrame:
    """Return `subscription_id`, `post_id`, `index_version` of every match. The index determines the mode.

    `report` receives the loads of the matchers per task. `routing` may shed posts.
    """
    lists = _match_lists(posts, index, ref, report, routing)
    # Python sends one list per post: Spark explodes it in a third of the time that reading single rows would take.
    pairs = lists.select(F.explode("subscriptions").alias("subscription_id"), "post_id")
    return pairs.withColumn("index_version", F.lit(ref.version).cast("bigint"))


def _match_lists(
    posts: DataFrame, index: Index, ref: IndexRef, report: ReportLoads | None, routing: RoutingOptions
) -> DataFrame:
    """Return `post_id` and the list of its `subscriptions`. A post may have several such rows."""
    post_type = post_columns.id_type(posts)
    schema = StructType([StructField("post_id", post_type, False), _subscriptions_field(index)])
    columns = post_columns.select_columns(posts)
    if index.manifest.plan is None:
        return columns.mapInArrow(with_metrics(stages.match_replicated(ref), ref, report), schema)
    if index.manifest.shared:
        return _merged(columns, index, ref, report, routing, ["id"], [stages.ListWriter] * 2, schema)
    time_zone = posts.sparkSession.conf.get("spark.sql.session.timeZone")
    tasks = _count_tasks(posts, index)
    routed_schema = _routed_schema(index, to_arrow_type(post_type, timezone=time_zone), with_rows=False)
    routed = _send(columns, stages.route(ref, routed_schema, tasks, routing), tasks)
    return routed.mapInArrow(with_metrics(stages.match_shards(ref, routed_schema), ref, report), schema)


def matched_posts(
    posts: DataFrame,
    index: Index,
    ref: IndexRef,
    report: ReportLoads | None = None,
    routing: RoutingOptions = _SEND_ALL,
    folder: Path | None = None,
) -> DataFrame:
    """Return matched posts with the list of their `subscriptions`, and rejected posts with their `reason`.

    One row per post: what a stream stores. `posts` come from `select_all_fields` and are not streaming. With a folder,
    workers write matched posts to files there (`spill`) and emit only their number, in the column `spilled_rows`.
    """
    fields = [StructField(field.name, field.dataType) for field in (*posts.schema.fields, _subscriptions_field(index))]
    extra = [] if folder is None else [StructField(SPILLED_ROWS, LongType())]
    schema = StructType([*fields, *extra])
    if index.manifest.plan is None:
        match = stages.match_and_write(ref, choose_writer(folder), routing)
        rows = posts.mapInArrow(with_metrics(match, ref, report), schema)
    else:
        writers = [choose_writer(folder, "-local"), choose_writer(folder)]
        rows = _merged(posts, index, ref, report, routing, posts.columns, writers, schema)
    is_rejected = "size(subscriptions) = 0"  # the stage emits posts without a match only if they are rejected
    reason = f"CASE WHEN {is_rejected} THEN {reject_reason_sql(posts.columns)} END"
    columns = post_columns.with_reason_sql(posts.columns, reason)
    return rows.selectExpr(*columns, "subscriptions", *(field.name for field in extra))


def _merged(
    posts: DataFrame,
    index: Index,
    ref: IndexRef,
    report: ReportLoads | None,
    routing: RoutingOptions,
    columns: Sequence[str],
    writers: Sequence[OpenWriter],
    result: StructType,
) -> DataFrame:
    """Return what the writers yield for these columns of the posts: that of the matchers, and that of the merge."""
    tasks, schema, hits = (
        _count_tasks(posts, index),
        _routed_schema(index, None, True),
        dedup.hits_schema(index.id_type),
    )
    routed = _send(posts, stages.route(ref, schema, tasks, routing, columns), tasks)
    match = stages.match_shards_to_blobs(ref, schema, hits, tasks, writers[0])
    replies = _send(routed, with_metrics(match, ref, report), tasks)
    ordered = replies if posts.isStreaming else replies.sortWithinPartitions("batch")  # so that few batches wait
    return ordered.mapInArrow(stages.merge_and_write(hits, writers[1]), result)


def _send(rows: DataFrame, stage: Stage, tasks: int) -> DataFrame:
    """Run a stage that emits blobs, and send each blob to the task that its label names."""
    return rows.mapInArrow(stage, stages.BLOB_SCHEMA).repartitionById(tasks, "task")


def _count_tasks(posts: DataFrame, index: Index) -> int:
    """Return the tasks that the matchers share: one each if there are enough cores. More tasks only cost time."""
    assert index.manifest.plan is not None
    return min(index.manifest.plan.matchers, count_cores(posts.sparkSession))


def _routed_schema(index: Index, id_type: pa.DataType | None, with_rows: bool) -> pa.Schema:
    return wire.routed_schema(id_type, index.manifest.terms, index.manifest.regions, with_rows)


def _subscriptions_field(index: Index) -> StructField:
    """Declare that lists hold no nulls: otherwise Spark checks every element when it copies a list."""
    return StructField("subscriptions", ArrayType(from_arrow_type(index.id_type), containsNull=False))
