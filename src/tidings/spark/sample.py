"""Some posts, as texts and positions: what plans are learned from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from tidings.balance.spatial_fit import Located
from tidings.errors import InputError
from tidings.spark import post_columns as receive
from tidings.text.searchable import positions, searchable

_SEARCHED = ("text", "title", "tags", "lat", "lon")
_MORE = 1.05  # a random sample of a given share is sometimes a bit too small


def first_posts(posts: DataFrame, count: int) -> Located:
    """What would be searched of the first `count` posts, and longitude and latitude of each, NaN where it has none.

    Those that are not fit to be matched are left out.
    """
    refuse_streaming(posts)
    return _located(_searched(posts).limit(count))


def random_posts(posts: DataFrame, count: int, seed: int) -> Located:
    """The same of `count` posts drawn at random; of all of them if there are no more."""
    fit = _searched(posts)
    total = fit.count()
    return _located(fit if total <= count else fit.sample(min(1.0, _MORE * count / total), seed).limit(count))


def refuse_streaming(posts: DataFrame) -> None:
    """InputError for posts that cannot be sampled."""
    if posts.isStreaming:
        raise InputError(
            "A stream cannot be looked at before it runs: learn a plan from a file of posts with `tidings plan learn`, "
            "and give that file as the partitioner."
        )


def _searched(posts: DataFrame) -> DataFrame:
    usable = receive.accepted(posts)
    return usable.select(*(name for name in _SEARCHED if name in usable.columns))


def _located(posts: DataFrame) -> Located:
    found = posts.toArrow().to_batches()
    texts = pa.chunked_array([searchable(batch) for batch in found], pa.string())
    where = [positions(batch) for batch in found]
    return texts.cast(pa.large_string()).combine_chunks(), np.concatenate([np.zeros((0, 2)), *where])
