"""The tag router with a monitor that replaces the plan when its quality has degraded: posts in, notifications out.

The caller provides the planner, which learns a plan from a sample in this process or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.autoscale import choose_partition_count
from tidings.correlate.partition.plan import TagPlan, TagPlanMetrics
from tidings.correlate.partition.registry import EVEN_LOADS_FIRST, learn_tag_plan
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_router import Notifications, RoutingQuality, TagRouter

TagPlanner = Callable[[TagSets, int], TagPlan]  # (sample, number of partitions) → plan


@dataclass(frozen=True, slots=True)
class Repartition:
    """When a new plan was learned (the time of the last post before it), why, and for how many partitions."""

    at_us: int
    post: int
    reason: str
    partitions: int


@dataclass(frozen=True, slots=True)
class QualityCheck:
    """The quality of the routing at one time."""

    at_us: int
    post: int
    quality: RoutingQuality


def local_planner(settings: CorrelationSettings) -> TagPlanner:
    """Return a planner that runs the partitioners and the merger one after another in this process."""

    def learn(sample: TagSets, partitions: int) -> TagPlan:
        return learn_tag_plan(sample, partitions, settings.algorithm, settings.partitioners, settings.seed)

    return learn


class TagRoutingPipeline:
    """Routes posts in order of time. The first plan is learned from the first window of these posts."""

    def __init__(self, settings: CorrelationSettings, planner: TagPlanner) -> None:
        self._settings = settings
        self._learn_plan = planner
        self.router = TagRouter(settings)
        self._recent = TaggedPosts.empty()
        self._reference: TagPlanMetrics | None = None
        self.partitions = settings.partitions
        self.posts = 0
        self.repartitions: list[Repartition] = []
        self.quality_checks: list[QualityCheck] = []

    def dump_state(self) -> dict[str, Any]:
        """Return the state as plain values, without owners and recent posts. Its keys are a stored format."""
        state: dict[str, Any] = {"partitions": self.partitions, "posts": self.posts}
        if self._reference is not None:
            reference = {**asdict(self._reference), "loads": self._reference.loads.tolist()}
            state |= {"reference": reference, "disseminator": self.router.dump_state()}
        return state

    def restore(self, state: Mapping[str, Any], owners: NDArray[np.uint64], recent: TaggedPosts) -> None:
        """Continue from a dumped state, the owners of all tags and the posts of the last window."""
        self.partitions, self.posts, self._recent = state["partitions"], state["posts"], recent
        if "reference" in state:
            reference = state["reference"]
            self._reference = TagPlanMetrics(**{**reference, "loads": np.array(reference["loads"], np.int64)})
            self.router.restore(state["disseminator"], owners, recent)

    def route(self, more: TaggedPosts) -> Iterator[list[Notifications]]:
        """Yield the notifications of these posts, in order."""
        if not len(more):
            return
        posts, at = TaggedPosts.concat([self._recent, more]), len(self._recent)
        before = self.posts - at
        if self._reference is None:
            until = int(np.searchsorted(posts.times, posts.times[0] + self._settings.window_us))
            self._adopt(posts.distinct_tag_sets(0, until), until)
        self.router.open_posts(posts, posts.times // self._settings.slide_us, at)
        while at < len(posts):
            at, quality = self.router.route()
            if quality is None:
                yield self.router.drain()
            else:
                yield from self._check_quality(quality, posts, at, before + at)
        yield self.router.drain()
        self.posts = before + at
        self._recent = posts.slice(self._window_start(posts.times, at), at)

    def _window_start(self, times: NDArray[np.int64], at: int) -> int:
        return int(np.searchsorted(times, times[at - 1] - self._settings.window_us, side="right"))

    def _check_quality(
        self, quality: RoutingQuality, posts: TaggedPosts, at: int, post: int
    ) -> Iterator[list[Notifications]]:
        """Replace the plan by one learned from the last window if its quality has degraded."""
        at_us, first = int(posts.times[at - 1]), self._window_start(posts.times, at)
        self.quality_checks.append(QualityCheck(at_us, post, quality))
        partitions, reason = self.partitions, self._find_degradation(quality)
        self._scale(at - first)
        if self.partitions != partitions:
            reason = f"{at - first:,} posts in the window"
        if reason:
            self.repartitions.append(Repartition(at_us, post, reason, self.partitions))
            yield self.router.drain()
            self._adopt(posts.distinct_tag_sets(first, at), at - first)
            yield from self._replay_window(posts, at)

    def _replay_window(self, posts: TaggedPosts, at: int) -> Iterator[list[Notifications]]:
        """Notify the new owners of the posts of windows that are still open."""
        settings = self._settings
        if settings.catch_up:
            oldest = (posts.times[at - 1] // settings.slide_us - settings.panes + 1) * settings.slide_us
            first, done = int(np.searchsorted(posts.times, oldest)), False
            while not done:
                done = self.router.replay(first)
                yield self.router.drain()

    def _scale(self, posts_in_window: int) -> None:
        settings = self._settings
        self.partitions = choose_partition_count(
            posts_in_window, settings.posts_per_partition, self.partitions, settings.partitions
        )

    def _find_degradation(self, quality: RoutingQuality) -> str:
        """Return what has become worse than after the last repartition by more than the threshold, or ""."""
        assert self._reference is not None
        allowed = 1 + self._settings.threshold
        pairs = {
            "communication": (quality.communication, self._reference.communication),
            "load": (quality.max_load, self._reference.max_load),
        }
        return " and ".join(name for name, (now, then) in pairs.items() if now > then * allowed)

    def _adopt(self, sample: TagSets, posts_in_window: int) -> None:
        if self._reference is None:
            self.partitions = 1
            self._scale(posts_in_window)
        plan = self._learn_plan(sample, self.partitions)
        self._reference = plan.measure(sample)
        self.router.adopt(plan, sample, self._settings.algorithm in EVEN_LOADS_FIRST)
