"""Some posts, as texts and positions: what plans are learned from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from tidings.errors import InputError
from tidings.receive.compose import positions, searchable
from tidings.spark import posts as receive

_MORE = 1.05  # a random sample of a given share is sometimes a bit too small


def first_texts(posts: DataFrame, count: int) -> pa.Array:
    """What would be searched of the first `count` posts; those that are not fit to be matched are left out."""
    refuse_streaming(posts)
    return _texts(_searched(posts).limit(count))


def first_located(posts: DataFrame, count: int) -> tuple[pa.Array, NDArray[np.float64]]:
    """What would be searched of the first `count` posts, and longitude and latitude of each, NaN where it has none."""
    refuse_streaming(posts)
    usable = receive.accepted(posts)
    columns = [name for name in ("text", "title", "tags", "lat", "lon") if name in usable.columns]
    found = usable.select(*columns).limit(count).toArrow()
    texts = pa.chunked_array([searchable(batch) for batch in found.to_batches()], pa.string())
    where = [positions(batch) for batch in found.to_batches()]
    return texts.cast(pa.large_string()).combine_chunks(), np.concatenate([np.zeros((0, 2)), *where])


def random_texts(posts: DataFrame, count: int, seed: int) -> pa.Array:
    """The same of `count` posts drawn at random; of all of them if there are no more."""
    fit = _searched(posts)
    total = fit.count()
    return _texts(fit if total <= count else fit.sample(min(1.0, _MORE * count / total), seed).limit(count))


def refuse_streaming(posts: DataFrame) -> None:
    """InputError for posts that cannot be sampled."""
    if posts.isStreaming:
        raise InputError(
            "A stream cannot be looked at before it runs: learn a plan from a file of posts with `tidings plan learn`, "
            "and give that file as the partitioner."
        )


def _searched(posts: DataFrame) -> DataFrame:
    return receive.accepted(posts).select(*(name for name in ("text", "title", "tags") if name in posts.columns))


def _texts(posts: DataFrame) -> pa.Array:
    pieces = [searchable(batch) for batch in posts.toArrow().to_batches()]
    return pa.chunked_array(pieces, pa.string()).cast(pa.large_string()).combine_chunks()
