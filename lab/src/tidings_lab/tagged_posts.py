"""Tagged posts for benchmarks and experiments: the real hashtags where they are, else ones the project makes itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_parser import Parser
from tidings.correlate.tag_vocabulary import Vocabulary
from tidings_lab import datasets

HASHTAGS = "hashtags.parquet"
_BATCH = 10_000
STAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class TaggedTable:
    """`time` and `tags` of posts in the order of time, and where they come from."""

    table: pa.Table
    source: str

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def parsed(self) -> TaggedPosts:
        """The posts as the parser gives them."""
        return self.parsed_with_names()[0]

    def parsed_with_names(self) -> tuple[TaggedPosts, pa.Array]:
        """The same, and what their tags are called."""
        parser, vocabulary = Parser(), Vocabulary()
        times = self.table["time"].cast(STAMP).cast(pa.int64())
        batches = pa.table({"time": times, "tags": self.table["tags"]}).to_batches(_BATCH)
        posts = TaggedPosts.together([vocabulary.numbered(parser.parse(batch)) for batch in batches]).in_order()
        return posts, vocabulary.column()

    def write(self, file: Path) -> None:
        pq.write_table(self.table, file, row_group_size=1 << 18)


def replayed(posts: TaggedPosts, posts_a_second: float) -> TaggedPosts:
    """The same posts in the same order, so many a second."""
    times = (np.arange(len(posts)) * (1_000_000 / posts_a_second)).astype(np.int64)
    return TaggedPosts(times, posts.tags, posts.starts)


def load_tagged(count: int | None, seed: int, made: int = 200_000) -> TaggedTable:
    """The first `count` real posts with hashtags (all when None), or as many generated ones where there are none."""
    folder = datasets.data_folder()
    if folder is not None and (folder / HASHTAGS).is_file():
        table = pq.read_table(folder / HASHTAGS, columns=["time", "tags"])
        return TaggedTable(table.slice(0, count).combine_chunks(), HASHTAGS)
    return TaggedTable(generated(count or made, seed), f"generated, seed {seed}")


def generated(count: int, seed: int) -> pa.Table:
    """Posts about topics that come and go: a topic has its own tags, some tags belong to everybody."""
    rng = np.random.default_rng([seed, 6])
    topics = rng.zipf(1.4, count) % 500 + np.arange(count) // 5_000
    sizes = np.minimum(rng.zipf(2.2, count), 8)
    rows = np.repeat(np.arange(count), sizes)
    own, common = rng.zipf(1.6, len(rows)) % 12, rng.zipf(1.3, len(rows)) % 200
    is_common = rng.random(len(rows)) < 0.05
    tags = np.where(is_common, 10**9 + common, topics[rows] * 100 + own)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), pa.array(tags).cast(pa.string()))
    times = np.arange(count, dtype=np.int64) * 1_000_000
    return pa.table({"time": pa.array(times, STAMP), "tags": lists})
