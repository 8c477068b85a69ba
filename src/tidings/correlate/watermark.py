"""Lateness: a post that is older than the newest one seen by more than is allowed is counted and dropped."""

from __future__ import annotations

import numpy as np

from tidings.correlate.posts import TaggedPosts


class Arrivals:
    """Takes posts as they arrive. Without a limit none is late."""

    def __init__(self, lateness_us: int | None) -> None:
        self._lateness_us = lateness_us
        self._newest = np.iinfo(np.int64).min
        self.late = 0

    def on_time(self, posts: TaggedPosts) -> TaggedPosts:
        if self._lateness_us is None or not len(posts):
            return posts
        newest = np.maximum.accumulate(np.maximum(posts.times, self._newest))
        self._newest = int(newest[-1])
        rows = np.flatnonzero(newest - posts.times <= self._lateness_us)
        self.late += len(posts) - len(rows)
        return posts.take(rows)
