"""A sample of the most recent posts, from which a plan is learned again."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import QUICK_SAMPLE_POSTS


class RecentPosts:
    """The newest `max_posts` texts with their positions."""

    def __init__(self, max_posts: int = QUICK_SAMPLE_POSTS) -> None:
        self._max_posts = max_posts
        self._chunks: deque[PostSample] = deque()
        self.count = 0

    def add(self, posts: PostSample) -> None:
        """Add posts and drop the oldest ones beyond the maximum."""
        if not len(posts[0]):
            return
        self._chunks.append(posts)
        self.count += len(posts[0])
        while self.count > self._max_posts:
            (texts, positions), excess = self._chunks[0], self.count - self._max_posts
            if len(texts) <= excess:
                self._chunks.popleft()
                self.count -= len(texts)
            else:
                self._chunks[0] = texts.slice(excess), positions[excess:]
                self.count -= excess

    def posts(self) -> PostSample:
        texts = pa.concat_arrays([pa.array([], pa.large_string()), *(texts for texts, _ in self._chunks)])
        return texts, np.concatenate([np.zeros((0, 2)), *(positions for _, positions in self._chunks)])
