"""The pipeline on one page: analyze → route → match → remove duplicates. DataFrame in and out, batch or streaming."""

from __future__ import annotations

import os
from pathlib import Path

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
from tidings.spark.spill import SPILLED_ROWS
from tidings.spark.worker_state import IndexRef

_SEND_ALL = RoutingOptions()
_ROW = "_row"  # the number of a post in its batch


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
    subscription_type = index.id_type
    lists = ArrayType(from_arrow_type(subscription_type), containsNull=False)
    schema = StructType([StructField("post_id", post_type, False), StructField("subscriptions", lists, False)])
    columns = post_columns.select_columns(posts)
    if index.manifest.plan is None:
        return columns.mapInArrow(with_metrics(stages.match_replicated(ref), ref, report), schema)
    time_zone = posts.sparkSession.conf.get("spark.sql.session.timeZone")
    arrow_type = to_arrow_type(post_type, timezone=time_zone)
    routed_schema = wire.routed_schema(
        arrow_type, index.manifest.terms, with_positions=index.manifest.regions, with_rows=index.manifest.shared
    )
    routed = columns.mapInArrow(stages.route(ref, routed_schema, routing), stages.ROUTED_SCHEMA)
    by_matcher = routed.repartitionById(index.manifest.plan.matchers, "matcher")
    if not index.manifest.shared:
        return by_matcher.mapInArrow(with_metrics(stages.match_shard(ref, routed_schema), ref, report), schema)
    hits_schema = dedup.hits_schema(subscription_type, arrow_type)
    match = with_metrics(stages.match_shard_for_dedup(ref, routed_schema, hits_schema), ref, report)
    hits = by_matcher.mapInArrow(match, stages.HITS_SCHEMA)
    return _group_by_batch(hits).mapInArrow(stages.remove_duplicates(hits_schema), schema)


def matched_posts(
    posts: DataFrame,
    index: Index,
    ref: IndexRef,
    report: ReportLoads | None = None,
    routing: RoutingOptions = _SEND_ALL,
    folder: Path | None = None,
) -> DataFrame:
    """Return matched posts with the list of their `subscriptions`, and rejected posts with their `reason`.

    One row per post: what a stream stores. `posts` come from `select_all_fields`. With a folder, workers may write
    matched posts to files there (`spill`) and emit only their number, in the column `spilled_rows`.
    """
    if index.manifest.plan is not None:
        rows = _matched_posts_partitioned(posts, index, ref, report, routing)
        return rows if folder is None else rows.withColumn(SPILLED_ROWS, F.lit(None).cast("bigint"))
    fields = [StructField(field.name, field.dataType) for field in (*posts.schema.fields, _subscriptions_field(index))]
    if folder is None:
        stage, extra = stages.match_to_rows(ref), []
    else:
        stage, extra = stages.match_to_files(ref, os.path.abspath(folder)), [StructField(SPILLED_ROWS, LongType())]
    rows = posts.mapInArrow(with_metrics(stage, ref, report), StructType([*fields, *extra]))
    is_rejected = "size(subscriptions) = 0"  # the stage emits posts without a match only if they are rejected
    reason = f"CASE WHEN {is_rejected} THEN {reject_reason_sql(posts.columns)} END"
    columns = post_columns.with_reason_sql(posts.columns, reason)
    return rows.selectExpr(*columns, "subscriptions", *(field.name for field in extra))


def _matched_posts_partitioned(
    posts: DataFrame, index: Index, ref: IndexRef, report: ReportLoads | None, routing: RoutingOptions
) -> DataFrame:
    """Identify posts by their row number: two posts of a batch may share an id, and only one of them match."""
    numbered = posts.withColumn(_ROW, F.monotonically_increasing_id())
    lists = _match_lists(numbered.withColumn("id", F.col(_ROW)), index, ref, report, routing)
    by_row = lists.groupBy(F.col("post_id").alias(_ROW)).agg(
        F.array_distinct(F.flatten(F.collect_list("subscriptions"))).alias("subscriptions")
    )
    reason = reject_reason_sql(posts.columns)
    checked = numbered.selectExpr(*post_columns.with_reason_sql(posts.columns, reason), _ROW)
    matched = checked.where("reason IS NULL").join(by_row, _ROW)
    no_subscriptions = F.array().cast(_subscriptions_field(index).dataType)
    rejected = checked.where("reason IS NOT NULL").withColumn("subscriptions", no_subscriptions)
    return matched.unionByName(rejected).drop(_ROW)


def _subscriptions_field(index: Index) -> StructField:
    """Declare that lists hold no nulls: otherwise Spark checks every element when it copies a list."""
    return StructField("subscriptions", ArrayType(from_arrow_type(index.id_type), containsNull=False))


def _group_by_batch(hits: DataFrame) -> DataFrame:
    """Put all hits of a batch into one partition, sorted where Spark can, so that few batches are incomplete."""
    grouped = hits.repartition("batch")
    return grouped if hits.isStreaming else grouped.sortWithinPartitions("batch")
