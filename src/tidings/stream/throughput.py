"""How fast posts are worked off, from what the last batches took."""

from __future__ import annotations

from dataclasses import dataclass

_FADING = 0.7  # what a batch counts against the one after it
_ASSUMED = ((0, 0.3, 3.0), (500, 0.35, 0.3))  # posts, seconds, and what that counts against the last batch
_REMEMBERED = 20
_FASTEST_S = 1e-6  # a post; no machine is faster


@dataclass(frozen=True, slots=True)
class Pace:
    """A batch takes `base_s` and, for every post, `post_s`: the line nearest to the last batches, older ones fading.

    Some are assumed: one without posts, so that batches which are all alike tell how much of them is the posts'; and
    one that was quick, so that a stream of few posts, whose batches take what Spark takes, is not thought slow.
    """

    batches: tuple[tuple[int, float], ...] = ()  # posts and seconds, the latest first

    def after(self, posts: int, seconds: float) -> Pace:
        return Pace(((posts, seconds), *self.batches)[:_REMEMBERED]) if posts else self

    @property
    def base_s(self) -> float:
        return self._line()[0]

    @property
    def post_s(self) -> float:
        return self._line()[1]

    def seconds(self, posts: float) -> float:
        """How long so many posts will take."""
        base_s, post_s = self._line()
        return base_s + posts * post_s

    def _line(self) -> tuple[float, float]:
        measured = [(posts, seconds, _FADING**age) for age, (posts, seconds) in enumerate(self.batches)]
        points = [*_ASSUMED, *measured]
        weight = sum(w for _, _, w in points)
        mean_posts, mean_seconds = (sum(point[axis] * point[2] for point in points) / weight for axis in (0, 1))
        wide = sum(w * (posts - mean_posts) ** 2 for posts, _, w in points)
        both = sum(w * (posts - mean_posts) * (seconds - mean_seconds) for posts, seconds, w in points)
        post_s = max(both / wide, _FASTEST_S)
        return max(mean_seconds - post_s * mean_posts, 0.0), post_s
