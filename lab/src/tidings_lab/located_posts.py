"""Posts with positions: real ones if present, otherwise generated."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.balance.spatial_fit import PostSample
from tidings_lab import datasets

GEO_TWEETS = "geo_tweets.parquet"
_WORDS = 4_000
_TOWNS = 40


def load_located(count: int | None, seed: int, generated: int = 100_000, with_times: bool = False) -> pa.Table:
    """Load `text`, `lat`, `lon` and perhaps `time` of `count` posts (None: all) in random order."""
    table = _load_all(count, seed, generated)
    return table if with_times else table.drop_columns(["time"])


def _load_all(count: int | None, seed: int, generated: int) -> pa.Table:
    folder = datasets.data_folder()
    if folder is None or not (folder / GEO_TWEETS).is_file():
        return generate_located(count or generated, seed)
    table = pq.read_table(folder / GEO_TWEETS, columns=["text", "lat", "lon", "time"])
    order = np.random.default_rng([seed, 60]).permutation(len(table))[:count]
    return table.take(pa.array(order)).combine_chunks()


def generate_located(count: int, seed: int) -> pa.Table:
    """Generate posts around towns, with words and the hours of the town, and common words."""
    rng = np.random.default_rng([seed, 61])
    towns = rng.uniform([25.0, -85.0], [45.0, -65.0], (_TOWNS, 2))
    town = rng.zipf(1.3, count) % _TOWNS
    places = towns[town] + rng.normal(0, 0.2, (count, 2))
    words = rng.zipf(1.3, (count, 8)) % _WORDS
    words[:, :2] = _WORDS + town[:, None] * 50 + rng.zipf(1.5, (count, 2)) % 50
    texts = [" ".join(f"word{number}" for number in row) for row in words.tolist()]
    hours = (rng.normal(15, 4, count) + town).astype(np.int64) % 24  # towns write at different times of the day
    times = [f"2016-05-{day:02}T{hour:02}:00:00Z" for day, hour in zip(rng.integers(1, 29, count), hours, strict=True)]
    return pa.table({"text": texts, "lat": places[:, 0], "lon": places[:, 1], "time": times})


def as_located(table: pa.Table) -> PostSample:
    """Return texts and positions as partitioners take them."""
    positions = np.column_stack([np.asarray(table.column(name), np.float64) for name in ("lon", "lat")])
    return table.column("text").combine_chunks().cast(pa.large_string()), positions
