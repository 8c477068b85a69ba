"""Posts and subscriptions for experiments: the real tweets and queries if present, otherwise generated ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidings.demo.generate import generate_posts
from tidings_lab import REPOSITORY
from tidings_lab.sample_queries import draw_queries

TWEETS, QUERIES = "tweets.parquet", "queries.txt"
PUBLIC_TWEETS = "tweets_public.parquet"
GENERATED_POSTS = 500_000  # unless a count is given
_WEEK_S = 7 * 24 * 3600
_GENERATED_WEEKS = 30
_DRAWN_FROM = 20_000  # queries are drawn from this number of tweets; the reference analyzer takes 0.2 ms per tweet


@dataclass(frozen=True, slots=True)
class Posts:
    """`id` and `text` of posts, and their source."""

    table: pa.Table
    source: str
    note: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def texts(self) -> pa.Array:
        """Return all texts as one array with 64-bit offsets: a million tweets come close to the limit of 32 bits."""
        return self.table.column("text").cast(pa.large_string()).combine_chunks()

    def to_dict(self) -> dict[str, object]:
        return {"posts": len(self), "source": self.source, "note": self.note}


@dataclass(frozen=True, slots=True)
class SubscriptionSet:
    """`id` (from 1) and `query`: the real queries first, then drawn ones."""

    table: pa.Table
    real: int
    seed: int

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_dict(self) -> dict[str, object]:
        drawn = len(self) - self.real
        return {"subscriptions": len(self), "real_queries": self.real, "drawn_from_posts": drawn, "seed": self.seed}


def data_folder() -> Path | None:
    """Return the folder of the real data, or None if there is no such data.

    `TIDINGS_DATA` names the folder; the default is `../shared/data` next to the repository. `TIDINGS_DATA=none` forces
    generated data, so that a test gives the same result on every machine.
    """
    setting = os.environ.get("TIDINGS_DATA")
    if setting == "none":
        return None
    folder = Path(setting) if setting else REPOSITORY.parent / "shared" / "data"
    return folder if (folder / TWEETS).is_file() else None


def posts_of(posts: Posts, name: str, seed: int) -> Posts:
    """Return `posts`, or as many of another file of tweets; generated posts if there is no real data."""
    folder = data_folder()
    if name in (TWEETS, posts.source):
        return posts
    if folder is None:
        return load_posts(len(posts), seed + 1)
    texts = pq.read_table(folder / name, columns=["text"]).slice(0, len(posts))
    return Posts(texts.add_column(0, "id", pa.array(np.arange(len(texts)))), name)


def load_posts(count: int | None, seed: int) -> Posts:
    """Return the first `count` real tweets (None: all), or generated posts if there is no real data."""
    folder = data_folder()
    if folder is None:
        table = generate_posts(count or GENERATED_POSTS, seed).select(["id", "text"])
        return Posts(
            table,
            f"generated, seed {seed}",
            "generated posts, because the real tweets are missing: do not compare these numbers",
        )
    table = pq.read_table(folder / TWEETS, columns=["id", "text"])
    return Posts(table.slice(0, count), TWEETS)


def weeks_of(posts: Posts) -> NDArray[np.float64]:
    """Return the age of each post in weeks since the first one. Generated posts are spread over 30 weeks."""
    folder = data_folder()
    if folder is None or posts.source != TWEETS:
        return np.linspace(0.0, _GENERATED_WEEKS, len(posts))
    times = pq.read_table(folder / TWEETS, columns=["time"]).column("time").slice(0, len(posts))
    seconds = times.cast(pa.timestamp("s", times.type.tz)).cast(pa.int64()).to_numpy()
    weeks: NDArray[np.float64] = (seconds - seconds.min()) / _WEEK_S
    return weeks


def benchmark_subscriptions(count: int, seed: int, posts: Posts | None = None) -> SubscriptionSet:
    """Return the real queries, then queries of two to four words drawn from one random post each."""
    folder = data_folder()
    real: list[str] = []
    if folder is not None and (folder / QUERIES).is_file():
        real = (folder / QUERIES).read_text("utf-8").splitlines()[:count]
    rng = np.random.default_rng([seed, 2])
    drawn = draw_queries(sample_texts(posts or load_posts(None, seed), rng), count - len(real), rng)
    queries = pa.concat_arrays([pa.array(real, pa.string()), drawn])
    return SubscriptionSet(pa.table({"id": np.arange(1, count + 1), "query": queries}), len(real), seed)


def sample_texts(posts: Posts, rng: np.random.Generator) -> list[str]:
    """Return a random sample of texts to draw queries from."""
    rows = np.sort(rng.choice(len(posts), min(_DRAWN_FROM, len(posts)), replace=False))
    texts: list[str] = posts.table.column("text").take(pa.array(rows)).to_pylist()
    return texts
