"""The pipeline on one page: receive → route → match → merge. DataFrame in, DataFrame out, batch or streaming."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from tidings.index.reader import Index
from tidings.matching import dedup
from tidings.routing import wire
from tidings.spark import post_columns as receive
from tidings.spark import stages
from tidings.spark.matcher_metrics import Tell, measured
from tidings.spark.routing_metrics import Routing
from tidings.spark.spill_file import WRITTEN
from tidings.spark.worker_state import IndexRef

_SEND_ALL = Routing()
_PLACE = "_place"  # of a post in its batch


def match_posts(
    posts: DataFrame, index: Index, ref: IndexRef, tell: Tell | None = None, routing: Routing = _SEND_ALL
) -> DataFrame:
    """`subscription_id`, `post_id`, `index_version` of every match; the index decides between the two plans.

    `tell` gets the load of the matchers, task by task; `routing` may withhold posts from matchers.
    """
    found = _found(posts, index, ref, tell, routing)
    # A list a post, taken apart here: Spark's generated code makes rows of it in a third of the time it takes to
    # read as many rows from Python.
    each = found.select(F.explode("subscriptions").alias("subscription_id"), "post_id")
    return each.withColumn("index_version", F.lit(ref.version).cast("bigint"))


def _found(posts: DataFrame, index: Index, ref: IndexRef, tell: Tell | None, routing: Routing) -> DataFrame:
    """`post_id` and the list of `subscriptions` it matches; a post may have several such rows."""
    post_type = receive.id_type(posts)
    subscription_type = index.id_type
    lists = ArrayType(from_arrow_type(subscription_type), containsNull=False)
    schema = StructType([StructField("post_id", post_type, False), StructField("subscriptions", lists, False)])
    received = receive.usable(posts)
    if index.manifest.plan is None:
        return received.mapInArrow(measured(stages.match_whole(ref), ref, tell), schema)
    time_zone = posts.sparkSession.conf.get("spark.sql.session.timeZone")
    arrow_type = to_arrow_type(post_type, timezone=time_zone)
    routed_schema = wire.routed_schema(
        arrow_type, index.manifest.terms, with_positions=index.manifest.regions, with_places=index.manifest.shared
    )
    routed = received.mapInArrow(stages.route(ref, routed_schema, routing), stages.ROUTED)
    placed = routed.repartitionById(index.manifest.plan.matchers, "matcher")
    if not index.manifest.shared:
        return placed.mapInArrow(measured(stages.match_shard(ref, routed_schema), ref, tell), schema)
    hits_schema = dedup.hits_schema(subscription_type, arrow_type)
    find = measured(stages.find_in_shard(ref, routed_schema, hits_schema), ref, tell)
    hits = placed.mapInArrow(find, stages.HITS)
    return _by_batch(hits).mapInArrow(stages.merge(hits_schema), schema)


def wanted_posts(
    whole: DataFrame,
    index: Index,
    ref: IndexRef,
    tell: Tell | None = None,
    routing: Routing = _SEND_ALL,
    folder: Path | None = None,
) -> DataFrame:
    """Of posts as `posts.whole` gives them those that match, each with the list of its `subscriptions`; and the
    unusable ones with a `reason`. What a stream stores: one row a post, however many want it.

    With a folder, rows may be in files there instead (`kept_files`); the column `written` tells how many.
    """
    if index.manifest.plan is not None:
        found = _wanted_by_shards(whole, index, ref, tell, routing)
        return found if folder is None else found.withColumn(WRITTEN, F.lit(None).cast("bigint"))
    fields = [StructField(field.name, field.dataType) for field in (*whole.schema.fields, _listed(index))]
    if folder is None:
        stage, told = stages.match_and_keep(ref), []
    else:
        stage, told = stages.match_and_write(ref, os.path.abspath(folder)), [StructField(WRITTEN, LongType())]
    found = whole.mapInArrow(measured(stage, ref, tell), StructType([*fields, *told]))
    unfit = "size(subscriptions) = 0"  # what is kept and wanted by nobody
    why = f"CASE WHEN {unfit} THEN {receive.reason(whole.columns)} END"
    return found.selectExpr(*receive.told(whole.columns, why), "subscriptions", *(field.name for field in told))


def _wanted_by_shards(whole: DataFrame, index: Index, ref: IndexRef, tell: Tell | None, routing: Routing) -> DataFrame:
    """Posts are told apart by their places: two of a batch may have one id, and only one of them be wanted."""
    placed = whole.withColumn(_PLACE, F.monotonically_increasing_id())
    matches = match_posts(placed.withColumn("id", F.col(_PLACE)), index, ref, tell, routing)
    lists = matches.groupBy(F.col("post_id").alias(_PLACE)).agg(F.collect_set("subscription_id").alias("subscriptions"))
    judged = placed.selectExpr(*receive.told(whole.columns, receive.reason(whole.columns)), _PLACE)
    found = judged.where("reason IS NULL").join(lists, _PLACE)
    nobody = F.array().cast(_listed(index).dataType)
    refused = judged.where("reason IS NOT NULL").withColumn("subscriptions", nobody)
    return found.unionByName(refused).drop(_PLACE)


def _listed(index: Index) -> StructField:
    """Said to hold no nulls: else Spark asks every element whether it is one when it copies a list."""
    return StructField("subscriptions", ArrayType(from_arrow_type(index.id_type), containsNull=False))


def _by_batch(hits: DataFrame) -> DataFrame:
    """All hits of a batch in one partition, next to each other where Spark can sort, so that few batches wait."""
    together = hits.repartition("batch")
    return together if hits.isStreaming else together.sortWithinPartitions("batch")
