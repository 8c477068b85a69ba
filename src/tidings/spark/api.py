"""The public functions for Spark programs: `match` and `rejected`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import QUICK_SAMPLE_POSTS, PlanSpec
from tidings.balance.word_registry import DEFAULT_PARTITIONER
from tidings.ingest.subscription_files import from_table
from tidings.schemas import RejectedSubscription
from tidings.spark import post_columns
from tidings.spark.execution_mode import build_index_for_mode
from tidings.spark.index_shipping import ship_index
from tidings.spark.pipeline import match_posts
from tidings.spark.sample import sample_random_posts
from tidings.spark.session import count_cores


@dataclass(frozen=True, slots=True)
class PreparedMatch:
    """A match that is ready to run: lazy matches, the execution mode and its reason, rejected subscriptions."""

    matches: DataFrame
    mode: str
    mode_reason: str
    matchers: int | None  # of a partitioned index
    index_version: int
    subscriptions: int
    rejected: list[RejectedSubscription]


def match(
    posts: DataFrame,
    subscriptions: DataFrame,
    *,
    plan: str = "auto",
    matchers: int | None = None,
    partitioner: str | None = None,
    placement: str = "anchor",
    unique: bool = False,
) -> DataFrame:
    """Match posts with subscriptions; return `subscription_id`, `post_id`, `index_version` of every match.

    Args:
        posts: Batch or streaming. Needs a column `text`; `id`, `title`, `tags`, `lat`, `lon` are optional.
        subscriptions: Needs `id` and `query`; `region` is optional. Read once, by this call.
        plan: Execution mode: `replicated` (each worker maps the whole index), `partitioned` (each matcher has
            a shard) or `auto` (replicated while the index fits into a quarter of the memory).
        matchers: Number of shards in partitioned mode. Default: one per core.
        partitioner: How terms are assigned to matchers: `hash`, the name of an algorithm that learns from a sample
            of the posts, or a file from `tidings plan learn`. Default: `salb+`; for streams `hash`, because a
            stream cannot be sampled before it runs.
        placement: How a subscription is assigned to one of several possible matchers.
        unique: Report a (subscription, post id) once even if several posts share the id. Reads all ids first;
            batch only.

    No choice of plan, matchers, partitioner and placement changes the matches. Rows that cannot be matched are left
    out: `rejected` returns them.

    Raises:
        InputError: A column or an option is invalid.
    """
    table = subscriptions.toArrow()
    prepared = prepare_match(
        posts, table, plan=plan, matchers=matchers, partitioner=partitioner, placement=placement, unique=unique
    )
    return prepared.matches


def rejected(posts: DataFrame) -> DataFrame:
    """Return the posts that `match` leaves out: `post_id`, `reason` and the first 200 characters of `text`."""
    return post_columns.select_rejected(posts)


def prepare_match(
    posts: DataFrame,
    subscriptions: pa.Table,
    *,
    plan: str = "auto",
    matchers: int | None = None,
    partitioner: str | None = None,
    placement: str = "anchor",
    unique: bool = False,
    sample: PostSample | None = None,
    matcher: str = "kernel",
) -> PreparedMatch:
    """Build the index and return lazy matches. Without a sample, reads one to learn a partition plan, if any."""
    checked = from_table(subscriptions)
    folder = Path(tempfile.mkdtemp(prefix="tidings-index-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    cores = count_cores(posts.sparkSession)
    partitioner = partitioner or ("hash" if posts.isStreaming else DEFAULT_PARTITIONER)
    spec = PlanSpec.parse(partitioner, matchers, placement, cores)
    draw = partial(sample_random_posts, posts, QUICK_SAMPLE_POSTS) if sample is None else lambda: sample
    built = build_index_for_mode(folder, checked.table, plan, spec, draw, is_drawn=sample is not None)
    ref = replace(ship_index(posts.sparkSession, built.index, posts.isStreaming), matcher=matcher)
    matches = match_posts(posts, built.index, ref)
    if unique:
        matches = _deduplicate_by_post_id(matches, posts)
    ids = checked.table.column("id")
    invalid = [RejectedSubscription(int(checked.lines[r.row]), ids[r.row].as_py(), r.reason) for r in built.rejected]
    return PreparedMatch(
        matches,
        built.mode,
        built.reason,
        built.index.manifest.plan.matchers if built.index.manifest.plan else None,
        built.index.version,
        built.index.manifest.subscriptions,
        [*checked.rejected, *invalid],
    )


def _deduplicate_by_post_id(matches: DataFrame, posts: DataFrame) -> DataFrame:
    """Report a match once for all posts that share an id. Only matches of such posts are compared."""
    ids = post_columns.select_columns(posts).select(F.col("id").alias("post_id"))
    shared = ids.groupBy("post_id").count().where("count > 1").select("post_id", F.lit(True).alias("is_shared"))
    marked = matches.join(shared, "post_id", "left")
    columns = matches.columns
    single = marked.where("is_shared is null").select(*columns)
    return single.unionByName(marked.where("is_shared").select(*columns).dropDuplicates(["subscription_id", "post_id"]))
