"""Sample posts, as texts and positions, to learn partition plans from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.balance.spatial_fit import PostSample
from tidings.errors import InputError
from tidings.spark import post_columns
from tidings.text.searchable import join_searchable, read_positions

_SAMPLED_COLUMNS = ("text", "title", "tags", "lat", "lon")
_SORTED_POSTS = 200_000  # Spark keeps twice as many rows of each partition in memory to sort them
_OVERSAMPLING = 1.05  # a random sample is sometimes smaller than the fraction requested


def sample_random_posts(posts: DataFrame, count: int, seed: int = 0) -> PostSample:
    """Return texts and positions (longitude, latitude; NaN if missing) of `count` accepted posts, or of all if fewer.

    Every post has the same chance, wherever it is. Posts are read once for a small sample, twice for a large one.
    """
    _require_batch(posts)
    accepted = _select_sampled(posts)
    if count <= _SORTED_POSTS:
        return _collect(accepted.orderBy(F.rand(seed)).limit(count))
    total = accepted.count()
    share = min(1.0, _OVERSAMPLING * count / max(1, total))
    return draw_posts(_collect(accepted if share == 1 else accepted.sample(share, seed)), count, seed)


def with_drawn(posts: DataFrame, share: float, seed: int = 0) -> DataFrame:
    """Add the column `drawn`: the sampled columns of a share of the accepted posts, null for the others.

    Collected as a list, it gives a sample without another pass over the posts (`to_sample`). `posts` come from
    `post_columns.with_reject_reason`.
    """
    names = [name for name in _SAMPLED_COLUMNS if name in posts.columns]
    is_drawn = F.col("reason").isNull() & (F.rand(seed) < share)
    return posts.withColumn("drawn", F.when(is_drawn, F.struct(*names)))


def to_sample(rows: pa.ListArray) -> PostSample:
    """Return the posts in lists of `drawn` posts. They are sorted, because Spark collects them in any order."""
    flat = rows.flatten()
    texts, positions = _concat([pa.RecordBatch.from_struct_array(flat)] if len(flat) else [])
    order = np.lexsort((*positions.T, pc.rank(texts).to_numpy()))
    return texts.take(pa.array(order)), positions[order]


def draw_posts(posts: PostSample, count: int, seed: int) -> PostSample:
    """Return `count` of the posts, drawn at random, in their order; all if there are not more."""
    texts, positions = posts
    if len(texts) <= count:
        return posts
    rows = np.sort(np.random.default_rng(seed).choice(len(texts), count, replace=False))
    return texts.take(pa.array(rows)), positions[rows]


def _require_batch(posts: DataFrame) -> None:
    if posts.isStreaming:
        raise InputError(
            "partitioner: a stream cannot be sampled before it runs. Learn a plan from files of posts with "
            "`tidings plan learn` and pass the plan file as the partitioner."
        )


def _select_sampled(posts: DataFrame) -> DataFrame:
    accepted = post_columns.select_accepted(posts)
    return accepted.select(*(name for name in _SAMPLED_COLUMNS if name in accepted.columns))


def _collect(posts: DataFrame) -> PostSample:
    return _concat(posts.toArrow().to_batches())


def _concat(batches: Sequence[pa.RecordBatch]) -> PostSample:
    texts = pa.chunked_array([join_searchable(batch) for batch in batches], pa.string())
    positions = [read_positions(batch) for batch in batches]
    return texts.cast(pa.large_string()).combine_chunks(), np.concatenate([np.zeros((0, 2)), *positions])
