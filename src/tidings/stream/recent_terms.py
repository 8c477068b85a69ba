"""Count the terms of recent posts: a merge of the index chooses anchors by them."""

from __future__ import annotations

from collections.abc import Callable

from tidings.balance.recent_sample import RecentPosts
from tidings.index.builder import MIN_CHOICES
from tidings.index.reader import Index
from tidings.text.term_statistics import TermStatistics

MIN_COUNTED_POSTS = 10_000
_SAMPLED_PER_10K_POSTS, _FIRST_SAMPLED_PER_10K_POSTS = 100, 2_000  # once there are enough posts, and before


class RecentTerms:
    """A sample of recent posts, and when to count their terms. `recent` may have other uses too."""

    def __init__(self, max_posts: int) -> None:
        self.recent = RecentPosts(max_posts)
        self._is_counted = False  # whether a merge was started because there were no statistics

    def sample_rate(self, index: Index) -> int:
        """Return how many of 10,000 posts to sample; 0 if there are so few subscriptions that no terms are counted."""
        if not _uses_statistics(index):
            return 0
        return _SAMPLED_PER_10K_POSTS if self._is_enough else _FIRST_SAMPLED_PER_10K_POSTS

    def must_count(self, index: Index) -> bool:
        """Return whether to merge now because anchors were chosen without posts. True once: a merge may fail."""
        plan = index.manifest.plan
        has_two_plans = plan is not None and bool(plan.previous_file)
        if index.manifest.statistics or has_two_plans or self._is_counted or not _uses_statistics(index):
            return False
        self._is_counted = self._is_enough
        return self._is_counted

    def counter(self, index: Index) -> Callable[[], TermStatistics | None]:
        """Return a function that counts the terms; it returns None if there are too few posts or subscriptions."""
        if not self._is_enough or not _uses_statistics(index):
            return lambda: None
        texts = self.recent.posts()[0]
        return lambda: TermStatistics.of(texts)

    @property
    def _is_enough(self) -> bool:
        return self.recent.count >= MIN_COUNTED_POSTS


def _uses_statistics(index: Index) -> bool:
    return index.manifest.subscriptions >= MIN_CHOICES
