"""Posts as this package represents them: their times and tags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition.tagsets import TagSets
from tidings.ragged import take_rows


@dataclass(frozen=True, slots=True)
class TaggedPosts:
    """Post i was written at ``times[i]`` (microseconds) and has the ascending tags of row i."""

    times: NDArray[np.int64]
    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def empty(cls) -> TaggedPosts:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros(1, np.uint64))

    @property
    def tag_count(self) -> int:
        """Return the largest tag plus 1."""
        return int(self.tags.max()) + 1 if len(self.tags) else 0

    def take(self, rows: NDArray[np.integer]) -> TaggedPosts:
        return TaggedPosts(self.times[rows], *take_rows(self.tags, self.starts[rows], np.diff(self.starts)[rows]))

    def slice(self, first: int, last: int) -> TaggedPosts:
        starts = self.starts[first : last + 1]
        return TaggedPosts(self.times[first:last], self.tags[int(starts[0]) : int(starts[-1])], starts - starts[0])

    def sort_by_time(self) -> TaggedPosts:
        """Return the posts in order of time; posts of the same time keep their order."""
        if np.all(self.times[1:] >= self.times[:-1]):
            return self
        return self.take(np.argsort(self.times, kind="stable"))

    def distinct_tag_sets(self, first: int, last: int) -> TagSets:
        """Return the distinct tag sets of a range of posts."""
        posts = self.slice(first, last)
        return TagSets.deduplicate(posts.tags, posts.starts)

    @classmethod
    def concat(cls, parts: list[TaggedPosts]) -> TaggedPosts:
        times = np.concatenate([np.zeros(0, np.int64), *(part.times for part in parts)])
        tags = np.concatenate([np.zeros(0, np.uint32), *(part.tags for part in parts)])
        lengths = np.concatenate([np.zeros(1, np.uint64), *(np.diff(part.starts) for part in parts)])
        return cls(times, tags, np.cumsum(lengths, dtype=np.uint64))
