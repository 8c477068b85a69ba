"""Some posts, as texts: what word plans are learned from."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame

from tidings.errors import InputError
from tidings.receive.compose import searchable
from tidings.spark import posts as receive

_MORE = 1.05  # a random sample of a given share is sometimes a bit too small


def first_texts(posts: DataFrame, count: int) -> pa.Array:
    """What would be searched of the first `count` posts; those that are not fit to be matched are left out."""
    if posts.isStreaming:
        raise InputError(
            "A stream cannot be looked at before it runs: learn a plan from a file of posts with `tidings plan learn`, "
            "and give that file as the partitioner."
        )
    return _texts(_searched(posts).limit(count))


def random_texts(posts: DataFrame, count: int, seed: int) -> pa.Array:
    """The same of `count` posts drawn at random; of all of them if there are no more."""
    fit = _searched(posts)
    total = fit.count()
    return _texts(fit if total <= count else fit.sample(min(1.0, _MORE * count / total), seed).limit(count))


def _searched(posts: DataFrame) -> DataFrame:
    return receive.accepted(posts).select(*(name for name in ("text", "title", "tags") if name in posts.columns))


def _texts(posts: DataFrame) -> pa.Array:
    pieces = [searchable(batch) for batch in posts.toArrow().to_batches()]
    return pa.chunked_array(pieces, pa.string()).cast(pa.large_string()).combine_chunks()
