"""The disseminator: an inverted index from tags to calculators, and notifications with the tags each of them owns.

It counts the sets of tags that no calculator owns whole; one seen often enough is given to the calculator that suits it
best (a single addition). Every so many notified posts it stops, so that somebody can judge the quality of the plan.

A calculator that is given a tag has not heard of the posts that had it before. In the paper its counts stay wrong until
the window has passed; here, with `catch_up`, it is told of them, so that its counts are right at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.correlate import tag_routing_kernels as d
from tidings.correlate.partition.plan import MAX_PARTITIONS, TagPlan
from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.partition.tagset_trie import Nodes, grown
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.unseen_tagsets import sight_again

_ROOM = 1 << 17  # notifications written before they are handed over
_MOST_SETS = 1 << 22  # beyond it sightings are forgotten, so that endless new tag sets cost no endless memory


@dataclass(frozen=True, slots=True)
class Notifications:
    """What one calculator is told under one plan, in order: some tags of a post, counted `weights` times.

    `panes` says which slide the post belongs to, `now` in which slide this was told.
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
class Quality:
    """Communication and loads of the posts since the last look."""

    communication: float
    loads: NDArray[np.int64]

    @property
    def max_load(self) -> float:
        return float(self.loads.max() / self.loads.sum())


class Disseminator:
    """`open` some posts in order, `take` them; `take` stops for a look at the quality and to have told handed over."""

    def __init__(self, settings: Settings) -> None:
        self._sets = Nodes()
        self._seen: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._owners: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._frequency: NDArray[np.int64] = np.zeros(0, np.int64)
        self._loads = np.zeros((2, 1), np.int64)
        self._subset = np.zeros(1 << MAX_TAGS, np.uint64)
        self._counters = np.zeros(d.COUNTERS, np.int64)
        self._counters[[d.SIGHTINGS, d.EVERY, d.CATCH_UP, d.PANES]] = (
            settings.sightings, settings.checked_every, settings.catch_up, settings.panes,
        )  # fmt: skip
        self._make_room(_ROOM)
        self._sent_before = np.zeros(MAX_PARTITIONS, np.int64)
        self._sight_again = False
        self.plan = -1
        self.told = 0  # notifications of all kinds

    @property
    def owners(self) -> NDArray[np.uint64]:
        """The calculators of each tag, as bits."""
        return self._owners

    @property
    def sent(self) -> NDArray[np.int64]:
        """Notifications of new posts to each calculator."""
        now = self._sent_before.copy()
        now[: self._loads.shape[1]] += self._loads[0]
        return now

    @property
    def notified(self) -> int:
        """Posts that caused any notification."""
        return int(self._counters[d.NOTIFIED])

    @property
    def additions(self) -> int:
        return int(self._counters[d.ADDED])

    @property
    def unheard(self) -> int:
        """Posts of which no calculator owned a tag."""
        return int(self._counters[d.UNHEARD])

    @property
    def unseen(self) -> int:
        """Posts whose tags no calculator owned whole when they came."""
        return int(self._counters[d.UNSEEN])

    def kept(self) -> dict[str, Any]:
        """What another one needs to go on, as plain values, besides the owners and the posts of the window."""
        return {
            "plan": self.plan,
            "told": self.told,
            "counters": self._counters.tolist(),
            "loads": self._loads.tolist(),
            "sent_before": self._sent_before.tolist(),
        }

    def restore(self, kept: Mapping[str, Any], owners: NDArray[np.uint64], recent: TaggedPosts) -> None:
        """Go on from what another one kept. Sightings, and how frequent tags are, follow from the posts of the window:
        older ones count no more."""
        self.plan, self.told, self._owners = kept["plan"], kept["told"], owners
        self._counters[:] = kept["counters"]
        self._loads = np.array(kept["loads"], np.int64)
        self._sent_before = np.array(kept["sent_before"], np.int64)
        self._frequency = np.bincount(recent.tags, minlength=len(owners)).astype(np.int64)
        self._sight_again = True

    def adopt(self, plan: TagPlan, sample: TagSets, even_loads: bool) -> None:
        """Work by this plan from now on; `sample` tells how frequent its tags are. Hand over before."""
        self._sent_before = self.sent
        size = max(len(self._owners), plan.tag_count)
        self._owners = plan.spread(size)
        lengths = np.diff(sample.starts).astype(np.int64)
        self._frequency = np.bincount(sample.tags, np.repeat(sample.weights, lengths), minlength=size).astype(np.int64)
        self._loads = np.zeros((2, plan.partitions), np.int64)
        self._sets, self._seen = Nodes(), np.zeros(0, np.uint32)  # anew: a small table stays in the caches
        self._counters[[d.SINCE, d.SENT]] = 0
        self._counters[d.EVEN_LOADS] = even_loads
        self.plan += 1

    def open(self, posts: TaggedPosts, panes: NDArray[np.int64], taken: int) -> None:
        """Go on with these posts, of which the first have been taken before."""
        if (missing := posts.tag_count - len(self._owners)) > 0:
            size = len(self._owners) + max(missing, len(self._owners))
            self._owners, self._frequency = grown(self._owners, size), grown(self._frequency, size)
        if len(self._sets) > _MOST_SETS:
            self._sets, self._seen = Nodes(), np.zeros(0, np.uint32)
        self._posts, self._panes, self._taken = posts, panes, taken
        self._rows = np.repeat(np.arange(len(posts), dtype=np.uint32), np.diff(posts.starts).astype(np.int64))
        self._latest, self._before = np.zeros(len(self._owners), np.uint32), np.zeros(len(posts.tags), np.uint32)
        d.remember(posts.tags, np.uint64(0), posts.starts[taken], self._latest, self._before)
        if self._sight_again:
            self._count_sightings(taken)

    def _count_sightings(self, until: int) -> None:
        self._sight_again, post = False, 0
        while post < until:
            self._make_room_for_sets()
            sets = self._sets
            post = sight_again(
                self._posts.tags, self._posts.starts, np.uint64(post), np.uint64(until), self._owners, sets.table,
                sets.parents, sets.tags, sets.state, self._subset, self._seen,
            )  # fmt: skip

    def _make_room_for_sets(self) -> None:
        self._sets.grow(max(1 << MAX_TAGS, len(self._sets) // 2))
        if self._sets.room > len(self._seen):
            self._seen = grown(self._seen, self._sets.room)

    def take(self) -> tuple[int, Quality | None]:
        """Notify of the next posts; how many are taken now, and the quality if it is time to look at it.

        Stops too when there is no room for more notifications: have them handed over and go on.
        """
        self._make_room_for_sets()
        posts, sets, counters, before = self._posts, self._sets, self._counters, self._taken
        self._taken = d.disseminate(
            posts.tags, posts.starts, self._panes, self._rows, np.uint64(before), self._owners, self._frequency,
            self._latest, self._before, self._loads, sets.table, sets.parents, sets.tags, sets.state, self._subset,
            self._seen, counters, self._heads, self._told,
        )  # fmt: skip
        if self._taken == before and not counters[d.HEADS] and len(sets) + (1 << MAX_TAGS) <= sets.room:
            self._make_room(2 * len(self._heads))
        return self._taken, self._quality() if counters[d.SINCE] == counters[d.EVERY] else None

    def tell_again(self, first: int) -> bool:
        """Tell the owners of taken posts from `first` on; whether that is done, or must go on after handing over."""
        at = getattr(self, "_again", first)
        self._again = d.tell_again(
            self._posts.tags, self._posts.starts, np.uint64(at), np.uint64(self._taken), np.uint64(self._taken - 1),
            self._owners, self._counters, self._heads, self._told,
        )  # fmt: skip
        done = self._again == self._taken
        if done:
            del self._again
        return bool(done)

    def _make_room(self, notifications: int) -> None:
        self._heads = np.zeros((notifications, d.HEAD), np.uint32)
        self._told = np.zeros(notifications * MAX_TAGS + 1, np.uint32)

    def _quality(self) -> Quality:
        counters, recent = self._counters, self._loads[1]
        found = Quality(counters[d.SENT] / counters[d.SINCE], recent.copy())
        recent[:] = 0
        counters[[d.SINCE, d.SENT]] = 0
        return found

    def hand_over(self) -> list[Notifications]:
        """All notifications since the last time, by calculator."""
        heads = self._heads[: int(self._counters[d.HEADS])]
        self._counters[[d.HEADS, d.TOLD]] = 0
        self.told += len(heads)
        rows = np.bincount(heads[:, 1], minlength=MAX_PARTITIONS)
        lengths = np.bincount(heads[:, 1], heads[:, 2], minlength=MAX_PARTITIONS).astype(np.int64)
        places = np.vstack([np.cumsum(rows) - rows, np.cumsum(lengths) - lengths])
        labels, starts = np.empty((3, len(heads)), np.int64), np.zeros(len(heads) + 1, np.uint64)
        tags = np.empty(int(lengths.sum()), np.uint32)
        d.by_calculator(heads, self._told, self._panes, places, labels, starts, tags)
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
