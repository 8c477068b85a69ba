"""What a Spark program calls: `match` and `rejected`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.balance.spec import QUICK_SAMPLE, WantedPlan
from tidings.balance.word_registry import DEFAULT
from tidings.ingest.subscription_files import from_table
from tidings.schemas import RejectedSubscription
from tidings.spark import post_columns as receive
from tidings.spark.execution_mode import plan_index
from tidings.spark.index_shipping import ship
from tidings.spark.pipeline import match_posts
from tidings.spark.sample import first_posts
from tidings.spark.session import cores_of


@dataclass(frozen=True, slots=True)
class Matching:
    """A matching ready to run: the matches (lazy), the plan and its reason, the subscriptions left out."""

    matches: DataFrame
    plan: str
    why: str
    matchers: int | None  # that share a partitioned index
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
    placement: str = "rarest",
    unique: bool = False,
) -> DataFrame:
    """Every match of `posts` with `subscriptions`, as `subscription_id`, `post_id`, `index_version`.

    `posts` (batch or streaming) needs `text`; `id`, `title`, `tags`, `lat`, `lon` count where present. `subscriptions`
    needs `id` and `query`, may have `region`, and counts as it is at this call. Rows that cannot be used are left out:
    see `rejected`. Posts that share an id are matched each for itself unless `unique` is asked for, which costs a look
    at all ids (batch only).

    The partitioned plan shares the index out over `matchers`: by the words as `partitioner` maps them (`hash`, an
    algorithm that learns from a sample of the posts, or a file made by `tidings plan learn`; `salb+` where nothing is
    said, and `hash` for a stream, which cannot be looked at before it runs), and of several matchers that come into
    question to the one `placement` chooses. No choice changes the matches.
    """
    table = subscriptions.toArrow()
    options = {"plan": plan, "placement": placement}
    return prepare(posts, table, matchers=matchers, partitioner=partitioner, unique=unique, **options).matches


def rejected(posts: DataFrame) -> DataFrame:
    """The posts that `match` leaves out: `post_id`, `reason`, and the beginning of `text`."""
    return receive.rejected(posts)


def prepare(
    posts: DataFrame,
    subscriptions: pa.Table,
    *,
    plan: str = "auto",
    matchers: int | None = None,
    partitioner: str | None = None,
    placement: str = "rarest",
    unique: bool = False,
) -> Matching:
    """Build the index and describe the matching; of the posts only what a plan has to be learned from is read."""
    checked = from_table(subscriptions)
    folder = Path(tempfile.mkdtemp(prefix="tidings-index-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    cores = cores_of(posts.sparkSession)
    partitioner = partitioner or ("hash" if posts.isStreaming else DEFAULT)
    wanted = WantedPlan.checked(partitioner, matchers, placement, cores)
    planned = plan_index(folder, checked.table, plan, wanted, partial(first_posts, posts, QUICK_SAMPLE))
    ref = ship(posts.sparkSession, planned.index, posts.isStreaming)
    matches = match_posts(posts, planned.index, ref)
    if unique:
        matches = _once_an_id(matches, posts)
    ids = checked.table.column("id")
    refused = [RejectedSubscription(int(checked.lines[r.row]), ids[r.row].as_py(), r.reason) for r in planned.refused]
    return Matching(
        matches,
        planned.plan,
        planned.why,
        planned.index.manifest.plan.matchers if planned.index.manifest.plan else None,
        planned.index.version,
        planned.index.manifest.subscriptions,
        [*checked.rejected, *refused],
    )


def _once_an_id(matches: DataFrame, posts: DataFrame) -> DataFrame:
    """One match for all posts that share an id. Only their matches are compared; all others pass untouched."""
    ids = receive.usable(posts).select(F.col("id").alias("post_id"))
    twice = ids.groupBy("post_id").count().where("count > 1").select("post_id", F.lit(True).alias("twice"))
    marked = matches.join(twice, "post_id", "left")
    columns = matches.columns
    alone = marked.where("twice is null").select(*columns)
    return alone.unionByName(marked.where("twice").select(*columns).dropDuplicates(["subscription_id", "post_id"]))
