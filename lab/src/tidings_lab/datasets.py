"""What the benchmarks run on: the real tweets and queries where they are, else posts the project makes itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidings.demo.generate import generate_posts
from tidings_lab.sample_queries import draw_queries

REPOSITORY = Path(__file__).parents[3]
TWEETS, QUERIES = "tweets.parquet", "queries.txt"
GENERATED_POSTS = 500_000  # when no number is asked for
_WEEK_S = 7 * 24 * 3600
_GENERATED_WEEKS = 30
_DRAWN_FROM = 20_000  # tweets that drawn queries come from; cleaning by definition takes 0.2 ms a tweet


@dataclass(frozen=True, slots=True)
class Posts:
    """`id` and `text` of posts, and where they come from."""

    table: pa.Table
    source: str
    note: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def texts(self) -> pa.Array:
        """All texts in one piece; 64-bit offsets, as a million tweets come near what 32 bits can say."""
        return self.table.column("text").cast(pa.large_string()).combine_chunks()

    def described(self) -> dict[str, object]:
        return {"posts": len(self), "source": self.source, "note": self.note}


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """`id` (from 1 on) and `query`; the real queries first, then drawn ones."""

    table: pa.Table
    real: int
    seed: int

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def described(self) -> dict[str, object]:
        drawn = len(self) - self.real
        return {"subscriptions": len(self), "real_queries": self.real, "drawn_from_posts": drawn, "seed": self.seed}


def data_folder() -> Path | None:
    """The real data: ``TIDINGS_DATA``, else ``../shared/data`` beside the repository; None when it is not there."""
    told = os.environ.get("TIDINGS_DATA")
    folder = Path(told) if told else REPOSITORY.parent / "shared" / "data"
    return folder if (folder / TWEETS).is_file() else None


def load_posts(count: int | None, seed: int) -> Posts:
    """The first `count` real tweets (all when None), or as many generated posts where there are none."""
    folder = data_folder()
    if folder is None:
        table = generate_posts(count or GENERATED_POSTS, seed).select(["id", "text"])
        return Posts(table, f"generated, seed {seed}", "the real tweets were not there: figures cannot be compared")
    table = pq.read_table(folder / TWEETS, columns=["id", "text"])
    return Posts(table.slice(0, count), TWEETS)


def weeks_of(posts: Posts) -> NDArray[np.float64]:
    """How many weeks after the first post each was written; made-up posts are dealt into 30 weeks."""
    folder = data_folder()
    if folder is None or posts.source != TWEETS:
        return np.linspace(0.0, _GENERATED_WEEKS, len(posts))
    times = pq.read_table(folder / TWEETS, columns=["time"]).column("time").slice(0, len(posts))
    seconds = times.cast(pa.timestamp("s", times.type.tz)).cast(pa.int64()).to_numpy()
    weeks: NDArray[np.float64] = (seconds - seconds.min()) / _WEEK_S
    return weeks


def benchmark_subscriptions(count: int, seed: int, posts: Posts | None = None) -> Subscriptions:
    """The real queries as they are, then queries of two to four words, each drawn from one random post."""
    folder = data_folder()
    real: list[str] = []
    if folder is not None and (folder / QUERIES).is_file():
        real = (folder / QUERIES).read_text("utf-8").splitlines()[:count]
    rng = np.random.default_rng([seed, 2])
    drawn = draw_queries(sample_texts(posts or load_posts(None, seed), rng), count - len(real), rng)
    queries = pa.concat_arrays([pa.array(real, pa.string()), drawn])
    return Subscriptions(pa.table({"id": np.arange(1, count + 1), "query": queries}), len(real), seed)


def sample_texts(posts: Posts, rng: np.random.Generator) -> list[str]:
    """Some texts that queries are drawn from."""
    rows = np.sort(rng.choice(len(posts), min(_DRAWN_FROM, len(posts)), replace=False))
    texts: list[str] = posts.table.column("text").take(pa.array(rows)).to_pylist()
    return texts
