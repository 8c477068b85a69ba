"""The tag router (the Disseminator of the paper): notifies calculators of posts, with the tags that each one owns.

It counts the sightings of tag sets that no calculator owns completely. A set that is seen often enough is assigned to
the best calculator (a single addition). It stops every `check_every` notified posts for a quality check of the plan.

A calculator that is given a tag was not notified of earlier posts with it. In the paper its counts stay wrong until
the window has passed. Here, with `catch_up`, it is notified of these posts, so that its counts are right immediately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.correlate import tag_routing_kernels as kernels
from tidings.correlate.partition.plan import MAX_PARTITIONS, TagPlan
from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.partition.tagset_trie import TagSetTrie, grow_array
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.unseen_tagsets import recount_sightings

_BUFFERED_NOTIFICATIONS = 1 << 17  # before they must be drained
_MAX_SIGHTED_SETS = 1 << 22  # then all sightings are dropped, to limit the memory


@dataclass(frozen=True, slots=True)
class Notifications:
    """Notifications of one calculator under one plan, in order: some tags of a post, counted `weights` times.

    `panes` is the slide of the post, `now` the slide in which the notification was sent.
    """

    calculator: int
    plan: int
    now: NDArray[np.int64]
    panes: NDArray[np.int64]
    weights: NDArray[np.int64]
    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.panes)


@dataclass(frozen=True, slots=True)
class RoutingQuality:
    """Communication and loads since the last quality check."""

    communication: float
    loads: NDArray[np.int64]

    @property
    def max_load(self) -> float:
        return float(self.loads.max() / self.loads.sum())


class TagRouter:
    """Call `open_posts`, then `route` until all posts are taken; it stops for quality checks and when to `drain`."""

    def __init__(self, settings: CorrelationSettings) -> None:
        self._sets = TagSetTrie()
        self._seen: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._owners: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._frequency: NDArray[np.int64] = np.zeros(0, np.int64)
        self._loads = np.zeros((2, 1), np.int64)
        self._subset = np.zeros(1 << MAX_TAGS, np.uint64)
        self._counters = np.zeros(kernels.COUNTERS, np.int64)
        self._counters[[kernels.SIGHTINGS, kernels.CHECK_EVERY, kernels.CATCH_UP, kernels.PANES]] = (
            settings.min_sightings, settings.check_every, settings.catch_up, settings.panes,
        )  # fmt: skip
        self._allocate_buffers(_BUFFERED_NOTIFICATIONS)
        self._sent_before = np.zeros(MAX_PARTITIONS, np.int64)
        self._must_recount = False
        self.plan = -1
        self.notifications = 0  # of all kinds

    @property
    def owners(self) -> NDArray[np.uint64]:
        """Return the calculators of each tag, as bits."""
        return self._owners

    @property
    def sent(self) -> NDArray[np.int64]:
        """Return the number of notifications of new posts to each calculator."""
        now = self._sent_before.copy()
        now[: self._loads.shape[1]] += self._loads[0]
        return now

    @property
    def notified(self) -> int:
        """Return the number of posts that caused a notification."""
        return int(self._counters[kernels.NOTIFIED])

    @property
    def additions(self) -> int:
        return int(self._counters[kernels.ADDITIONS])

    @property
    def unrouted_posts(self) -> int:
        """Return the number of posts of which no calculator owned a tag."""
        return int(self._counters[kernels.UNROUTED])

    @property
    def uncovered_posts(self) -> int:
        """Return the number of posts whose tags no single calculator owned when they arrived."""
        return int(self._counters[kernels.UNCOVERED])

    def dump_state(self) -> dict[str, Any]:
        """Return the state as plain values, without owners and recent posts. Its keys are a stored format."""
        return {
            "plan": self.plan,
            "told": self.notifications,
            "counters": self._counters.tolist(),
            "loads": self._loads.tolist(),
            "sent_before": self._sent_before.tolist(),
        }

    def restore(self, state: Mapping[str, Any], owners: NDArray[np.uint64], recent: TaggedPosts) -> None:
        """Continue from a dumped state. Sightings and tag frequencies are counted in the posts of the window."""
        self.plan, self.notifications, self._owners = state["plan"], state["told"], owners
        self._counters[:] = state["counters"]
        self._loads = np.array(state["loads"], np.int64)
        self._sent_before = np.array(state["sent_before"], np.int64)
        self._frequency = np.bincount(recent.tags, minlength=len(owners)).astype(np.int64)
        self._must_recount = True

    def adopt(self, plan: TagPlan, sample: TagSets, even_loads: bool) -> None:
        """Use this plan from now on; `sample` gives the frequency of its tags. Call `drain` before."""
        self._sent_before = self.sent
        size = max(len(self._owners), plan.tag_count)
        self._owners = plan.owners_by_tag(size)
        lengths = np.diff(sample.starts).astype(np.int64)
        self._frequency = np.bincount(sample.tags, np.repeat(sample.weights, lengths), minlength=size).astype(np.int64)
        self._loads = np.zeros((2, plan.partitions), np.int64)
        self._sets, self._seen = TagSetTrie(), np.zeros(0, np.uint32)  # a new, small table stays in the CPU caches
        self._counters[[kernels.POSTS_SINCE_CHECK, kernels.SENT_SINCE_CHECK]] = 0
        self._counters[kernels.EVEN_LOADS] = even_loads
        self.plan += 1

    def open_posts(self, posts: TaggedPosts, panes: NDArray[np.int64], taken: int) -> None:
        """Continue with these posts, of which the first `taken` ones were routed before."""
        if (missing := posts.tag_count - len(self._owners)) > 0:
            size = len(self._owners) + max(missing, len(self._owners))
            self._owners, self._frequency = grow_array(self._owners, size), grow_array(self._frequency, size)
        if len(self._sets) > _MAX_SIGHTED_SETS:
            self._sets, self._seen = TagSetTrie(), np.zeros(0, np.uint32)
        self._posts, self._panes, self._taken = posts, panes, taken
        self._rows = np.repeat(np.arange(len(posts), dtype=np.uint32), np.diff(posts.starts).astype(np.int64))
        self._latest, self._before = np.zeros(len(self._owners), np.uint32), np.zeros(len(posts.tags), np.uint32)
        kernels.link_occurrences(posts.tags, np.uint64(0), posts.starts[taken], self._latest, self._before)
        if self._must_recount:
            self._count_sightings(taken)

    def _count_sightings(self, until: int) -> None:
        self._must_recount, post = False, 0
        while post < until:
            self._reserve_sets()
            sets = self._sets
            post = recount_sightings(
                self._posts.tags, self._posts.starts, np.uint64(post), np.uint64(until), self._owners, sets.table,
                sets.parents, sets.tags, sets.state, self._subset, self._seen,
            )  # fmt: skip

    def _reserve_sets(self) -> None:
        self._sets.grow(max(1 << MAX_TAGS, len(self._sets) // 2))
        if self._sets.capacity > len(self._seen):
            self._seen = grow_array(self._seen, self._sets.capacity)

    def route(self) -> tuple[int, RoutingQuality | None]:
        """Route the next posts. Return how many are taken now, and the quality if a check is due.

        Also stops if the buffer is full: call `drain` and continue.
        """
        self._reserve_sets()
        posts, sets, counters, before = self._posts, self._sets, self._counters, self._taken
        self._taken = kernels.route_posts(
            posts.tags, posts.starts, self._panes, self._rows, np.uint64(before), self._owners, self._frequency,
            self._latest, self._before, self._loads, sets.table, sets.parents, sets.tags, sets.state, self._subset,
            self._seen, counters, self._heads, self._tag_buffer,
        )  # fmt: skip
        if self._taken == before and not counters[kernels.HEADS] and len(sets) + (1 << MAX_TAGS) <= sets.capacity:
            self._allocate_buffers(2 * len(self._heads))
        is_due = counters[kernels.POSTS_SINCE_CHECK] == counters[kernels.CHECK_EVERY]
        return self._taken, self._pop_quality() if is_due else None

    def replay(self, first: int) -> bool:
        """Notify the owners of taken posts from `first` on. Return False if it must continue after `drain`."""
        at = getattr(self, "_replayed", first)
        self._replayed = kernels.replay_posts(
            self._posts.tags, self._posts.starts, np.uint64(at), np.uint64(self._taken), np.uint64(self._taken - 1),
            self._owners, self._counters, self._heads, self._tag_buffer,
        )  # fmt: skip
        done = self._replayed == self._taken
        if done:
            del self._replayed
        return bool(done)

    def _allocate_buffers(self, notifications: int) -> None:
        self._heads = np.zeros((notifications, kernels.HEAD_COLUMNS), np.uint32)
        self._tag_buffer = np.zeros(notifications * MAX_TAGS + 1, np.uint32)

    def _pop_quality(self) -> RoutingQuality:
        """Return the quality since the last check, and reset its counters."""
        counters, recent = self._counters, self._loads[1]
        communication = counters[kernels.SENT_SINCE_CHECK] / counters[kernels.POSTS_SINCE_CHECK]
        quality = RoutingQuality(communication, recent.copy())
        recent[:] = 0
        counters[[kernels.POSTS_SINCE_CHECK, kernels.SENT_SINCE_CHECK]] = 0
        return quality

    def drain(self) -> list[Notifications]:
        """Return all buffered notifications by calculator, and empty the buffer."""
        heads = self._heads[: int(self._counters[kernels.HEADS])]
        self._counters[[kernels.HEADS, kernels.TAGS]] = 0
        self.notifications += len(heads)
        rows = np.bincount(heads[:, 1], minlength=MAX_PARTITIONS)
        lengths = np.bincount(heads[:, 1], heads[:, 2], minlength=MAX_PARTITIONS).astype(np.int64)
        places = np.vstack([np.cumsum(rows) - rows, np.cumsum(lengths) - lengths])
        labels, starts = np.empty((3, len(heads)), np.int64), np.zeros(len(heads) + 1, np.uint64)
        tags = np.empty(int(lengths.sum()), np.uint32)
        kernels.group_by_calculator(heads, self._tag_buffer, self._panes, places, labels, starts, tags)
        now, panes, weights = labels
        bounds = np.concatenate([[0], np.cumsum(rows)]).tolist()
        return [
            Notifications(
                number,
                self.plan,
                now[first:last],
                panes[first:last],
                weights[first:last],
                tags[int(starts[first]) : int(starts[last])],
                starts[first : last + 1] - starts[first],
            )
            for number, (first, last) in enumerate(pairwise(bounds))
            if last > first
        ]
