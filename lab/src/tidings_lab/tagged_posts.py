"""Tagged posts: the real hashtags if present, otherwise generated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_parser import TagParser
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings_lab import datasets

HASHTAGS = "hashtags.parquet"
_BATCH = 10_000
STAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class TaggedTable:
    """`time` and `tags` of posts by time, and their source."""

    table: pa.Table
    source: str

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def parse(self) -> TaggedPosts:
        """Return the parsed posts."""
        return self.parse_with_names()[0]

    def parse_with_names(self) -> tuple[TaggedPosts, pa.Array]:
        """Return the parsed posts and the names of their tags."""
        parser, vocabulary = TagParser(), TagVocabulary()
        times = self.table["time"].cast(STAMP).cast(pa.int64())
        batches = pa.table({"time": times, "tags": self.table["tags"]}).to_batches(_BATCH)
        posts = TaggedPosts.concat([vocabulary.renumber_posts(parser.parse(batch)) for batch in batches]).sort_by_time()
        return posts, vocabulary.to_arrow()

    def write(self, file: Path) -> None:
        pq.write_table(self.table, file, row_group_size=1 << 18)


def replay(posts: TaggedPosts, posts_per_second: float) -> TaggedPosts:
    """Return the posts in the same order with a constant rate."""
    times = (np.arange(len(posts)) * (1_000_000 / posts_per_second)).astype(np.int64)
    return TaggedPosts(times, posts.tags, posts.starts)


def load_tagged(count: int | None, seed: int, generated: int = 200_000) -> TaggedTable:
    """Load the first `count` real posts with hashtags (None: all), or generate posts if there are none."""
    folder = datasets.data_folder()
    if folder is not None and (folder / HASHTAGS).is_file():
        table = pq.read_table(folder / HASHTAGS, columns=["time", "tags"])
        return TaggedTable(table.slice(0, count).combine_chunks(), HASHTAGS)
    return TaggedTable(generate_tagged(count or generated, seed), f"generated, seed {seed}")


def generate_tagged(count: int, seed: int) -> pa.Table:
    """Generate posts about changing topics: each topic has its own tags, some tags are common."""
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
