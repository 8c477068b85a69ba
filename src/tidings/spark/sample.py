"""Sample posts, as texts and positions, to learn partition plans from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from tidings.balance.spatial_fit import PostSample
from tidings.errors import InputError
from tidings.spark import post_columns
from tidings.text.searchable import join_searchable, read_positions

_SAMPLED_COLUMNS = ("text", "title", "tags", "lat", "lon")
_OVERSAMPLING = 1.05  # a random sample is sometimes smaller than the fraction requested


def sample_first_posts(posts: DataFrame, count: int) -> PostSample:
    """Return texts and positions (longitude, latitude; NaN if missing) of the first `count` accepted posts."""
    _require_batch(posts)
    return _collect(_select_sampled(posts).limit(count))


def sample_random_posts(posts: DataFrame, count: int, seed: int) -> PostSample:
    """Return texts and positions of `count` accepted posts drawn at random, or of all if there are fewer."""
    accepted = _select_sampled(posts)
    total = accepted.count()
    return _collect(
        accepted if total <= count else accepted.sample(min(1.0, _OVERSAMPLING * count / total), seed).limit(count)
    )


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
    batches = posts.toArrow().to_batches()
    texts = pa.chunked_array([join_searchable(batch) for batch in batches], pa.string())
    positions = [read_positions(batch) for batch in batches]
    return texts.cast(pa.large_string()).combine_chunks(), np.concatenate([np.zeros((0, 2)), *positions])
