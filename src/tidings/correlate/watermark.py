"""Drop and count posts that are older than the newest one seen by more than the allowed lateness."""

from __future__ import annotations

import numpy as np

from tidings.correlate.posts import TaggedPosts


class Watermark:
    """The newest time seen. Without an allowed lateness, no post is late."""

    def __init__(self, lateness_us: int | None) -> None:
        self._lateness_us = lateness_us
        self._newest = np.iinfo(np.int64).min
        self.late = 0

    def drop_late(self, posts: TaggedPosts) -> TaggedPosts:
        if self._lateness_us is None or not len(posts):
            return posts
        newest = np.maximum.accumulate(np.maximum(posts.times, self._newest))
        self._newest = int(newest[-1])
        rows = np.flatnonzero(newest - posts.times <= self._lateness_us)
        self.late += len(posts) - len(rows)
        return posts.take(rows)
