"""Model how long a batch takes, from the durations of the last batches."""

from __future__ import annotations

from dataclasses import dataclass

_DECAY = 0.7  # weight of a batch relative to the next one
_ASSUMED = ((0, 0.3, 3.0), (500, 0.35, 0.3))  # posts, seconds, weight relative to the last batch
_MAX_BATCHES = 20
_MIN_POST_S = 1e-6


@dataclass(frozen=True, slots=True)
class ThroughputModel:
    """A batch takes `base_s` and `post_s` per post: a weighted least-squares line through the last batches.

    Two batches are assumed: an empty one, so that batches of equal size still separate the two terms; and a fast one,
    so that a stream of few posts, whose batches take only Spark's overhead, is not considered slow.
    """

    batches: tuple[tuple[int, float], ...] = ()  # posts and seconds, the latest first

    def add(self, posts: int, seconds: float) -> ThroughputModel:
        """Return the model after another batch; an empty batch changes nothing."""
        return ThroughputModel(((posts, seconds), *self.batches)[:_MAX_BATCHES]) if posts else self

    @property
    def base_s(self) -> float:
        return self._fit()[0]

    @property
    def post_s(self) -> float:
        return self._fit()[1]

    def seconds(self, posts: float) -> float:
        """Return how long a batch of this size will take."""
        base_s, post_s = self._fit()
        return base_s + posts * post_s

    def _fit(self) -> tuple[float, float]:
        measured = [(posts, seconds, _DECAY**age) for age, (posts, seconds) in enumerate(self.batches)]
        points = [*_ASSUMED, *measured]
        weight = sum(w for _, _, w in points)
        mean_posts, mean_seconds = (sum(point[axis] * point[2] for point in points) / weight for axis in (0, 1))
        variance = sum(w * (posts - mean_posts) ** 2 for posts, _, w in points)
        covariance = sum(w * (posts - mean_posts) * (seconds - mean_seconds) for posts, seconds, w in points)
        post_s = max(covariance / variance, _MIN_POST_S)
        return max(mean_seconds - post_s * mean_posts, 0.0), post_s
