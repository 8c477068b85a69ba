"""Posts in, notifications out, and the plan renewed whenever it has become bad: the disseminator and its monitor.

How a plan is made of a sample is the caller's: one after another in this process, or by partitioners on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.autoscale import partitions_for
from tidings.correlate.partition.plan import Measured, TagPlan
from tidings.correlate.partition.registry import EVEN_LOADS_FIRST, learn
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.tag_router import Disseminator, Notifications, Quality

MakePlan = Callable[[TagSets, int], TagPlan]  # of a sample, for so many partitions


@dataclass(frozen=True, slots=True)
class Repartition:
    """When a new plan was made (the time of the last post before), why, and for how many partitions."""

    at_us: int
    post: int
    reason: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Look:
    """The quality at one moment."""

    at_us: int
    post: int
    quality: Quality


def in_this_process(settings: Settings) -> MakePlan:
    """Partitioners and merger one after another."""

    def make(sample: TagSets, partitions: int) -> TagPlan:
        return learn(sample, partitions, settings.algorithm, settings.partitioners, settings.seed)

    return make


class Dissemination:
    """Takes posts in the order of time. The first plan is learned from the first window of posts itself."""

    def __init__(self, settings: Settings, make_plan: MakePlan) -> None:
        self._settings = settings
        self._make_plan = make_plan
        self.disseminator = Disseminator(settings)
        self._recent = TaggedPosts.none()
        self._reference: Measured | None = None
        self.partitions = settings.partitions
        self.posts = 0
        self.repartitions: list[Repartition] = []
        self.looks: list[Look] = []

    def kept(self) -> dict[str, Any]:
        """What another one needs to go on, as plain values, besides the owners and the posts of the window."""
        found: dict[str, Any] = {"partitions": self.partitions, "posts": self.posts}
        if self._reference is not None:
            reference = {**asdict(self._reference), "loads": self._reference.loads.tolist()}
            found |= {"reference": reference, "disseminator": self.disseminator.kept()}
        return found

    def restore(self, kept: Mapping[str, Any], owners: NDArray[np.uint64], recent: TaggedPosts) -> None:
        """Go on from what another one kept, with the owners of all tags and the posts of the last window."""
        self.partitions, self.posts, self._recent = kept["partitions"], kept["posts"], recent
        if "reference" in kept:
            reference = kept["reference"]
            self._reference = Measured(**{**reference, "loads": np.array(reference["loads"], np.int64)})
            self.disseminator.restore(kept["disseminator"], owners, recent)

    def take(self, more: TaggedPosts) -> Iterator[list[Notifications]]:
        """What the calculators must be told of these posts, in order."""
        if not len(more):
            return
        posts, at = TaggedPosts.together([self._recent, more]), len(self._recent)
        before = self.posts - at
        if self._reference is None:
            until = int(np.searchsorted(posts.times, posts.times[0] + self._settings.window_us))
            self._adopt(posts.sets(0, until), until)
        self.disseminator.open(posts, posts.times // self._settings.slide_us, at)
        while at < len(posts):
            at, quality = self.disseminator.take()
            if quality is None:
                yield self.disseminator.hand_over()
            else:
                yield from self._look(quality, posts, at, before + at)
        yield self.disseminator.hand_over()
        self.posts = before + at
        self._recent = posts.slice(self._window_start(posts.times, at), at)

    def _window_start(self, times: NDArray[np.int64], at: int) -> int:
        return int(np.searchsorted(times, times[at - 1] - self._settings.window_us, side="right"))

    def _look(self, quality: Quality, posts: TaggedPosts, at: int, post: int) -> Iterator[list[Notifications]]:
        """Judge the plan, and replace it if need be by one learned from the last window."""
        at_us, first = int(posts.times[at - 1]), self._window_start(posts.times, at)
        self.looks.append(Look(at_us, post, quality))
        partitions, reason = self.partitions, self._trouble(quality)
        self._adapt(at - first)
        if self.partitions != partitions:
            reason = f"{at - first:,} posts in the window"
        if reason:
            self.repartitions.append(Repartition(at_us, post, reason, self.partitions))
            yield self.disseminator.hand_over()
            self._adopt(posts.sets(first, at), at - first)
            yield from self._told_again(posts, at)

    def _told_again(self, posts: TaggedPosts, at: int) -> Iterator[list[Notifications]]:
        """The posts of windows that are still open, told to their new owners."""
        settings = self._settings
        if settings.catch_up:
            oldest = (posts.times[at - 1] // settings.slide_us - settings.panes + 1) * settings.slide_us
            first, done = int(np.searchsorted(posts.times, oldest)), False
            while not done:
                done = self.disseminator.tell_again(first)
                yield self.disseminator.hand_over()

    def _adapt(self, posts_in_window: int) -> None:
        settings = self._settings
        self.partitions = partitions_for(
            posts_in_window, settings.posts_a_partition, self.partitions, settings.partitions
        )

    def _trouble(self, quality: Quality) -> str:
        """What has become worse than at first by more than the threshold."""
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
            self._adapt(posts_in_window)
        plan = self._make_plan(sample, self.partitions)
        self._reference = plan.measured(sample)
        self.disseminator.adopt(plan, sample, self._settings.algorithm in EVEN_LOADS_FIRST)
