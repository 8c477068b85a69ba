"""A new plan while the stream runs: learned beside it from the posts of late, switched to between batches."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tidings.atomic_io import write_whole
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import PlanHistory, Rules, Why
from tidings.balance.spec import Sample, WantedPlan
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.routing.stats import Noted
from tidings.store import Store
from tidings.stream.index_updater import Follower
from tidings.stream.options import Say

_TEXTS, _TEXTS_AT_FIRST = 200, 2_000  # that are kept of every Arrow batch
_AGAIN_S = 60.0  # after a failure
_POLL_S = 0.05
_NO_RULES = Rules()


class Relearner:
    """Decides at every border between batches whether to learn; `wanted` is None where there is nothing to plan."""

    def __init__(
        self,
        follower: Follower,
        store: Store,
        wanted: WantedPlan | None,
        rules: Rules = _NO_RULES,
        kept: Path = Path(os.devnull),
        say: Say = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._follower, self._store = follower, store
        self._wanted = wanted if wanted is not None and wanted.learns else None
        by_space = wanted is not None and wanted.by_space
        self._rules = Rules(None, None) if by_space else rules  # plans of places are adjusted instead (`adjusting.py`)
        self._kept, self._say, self._clock = kept, say, clock
        self.recent = RecentPosts()
        self._asked, self._not_before = 0, 0.0
        self.history = self._remembered(follower.index)

    @property
    def texts(self) -> int:
        """How many texts of every Arrow batch are wanted: more while there is no plan at all."""
        if self._wanted is None:
            return 0
        return _TEXTS if self.history.is_learned else _TEXTS_AT_FIRST

    def learn_first(self, sample: Sample, stop: threading.Event) -> None:
        """Before the first batch: where no plan was learned yet and there are posts to learn from, wait for one."""
        if self._wanted is None or self.history.is_learned or not self._follower.index.manifest.subscriptions:
            return
        self.recent.add(sample())
        if self.recent.count and not stop.is_set() and self._begin(Why.first):
            while not self._follower.has_learned and not stop.wait(_POLL_S):
                pass

    def at_border(self) -> None:
        """Begin to learn if there is a reason."""
        asked = self._store.relearning_asked()
        if self._wanted is None:
            if asked:
                self._say(
                    "a new plan was asked for, but this stream has none to learn: no algorithm shares its words out"
                )
                self._store.relearned(asked)
            return
        if self._follower.is_learning or self._clock() < self._not_before:
            return
        why = self.history.due(self._rules, self._clock(), asked > 0, self.recent.count)
        if why is not None and self._follower.index.manifest.subscriptions and self._begin(why):
            self._asked = asked

    def _begin(self, why: Why) -> bool:
        assert self._wanted is not None
        posts = self.recent.posts()
        begun = self._follower.relearn(self._wanted.learn_anew(lambda: posts))
        if begun:
            self._say(f"learning a plan by {self._wanted.partitioner} from {len(posts[0]):,} posts: {why}")
        return begun

    def at_version(self, index: Index) -> None:
        """The batch that begins uses this version."""
        failure = self._follower.learning_failure
        if failure is not None:
            self._follower.learning_failure = None
            self._not_before = self._clock() + _AGAIN_S
            self._say(f"no plan was learned, and the one in use stays: {failure}")
        plan = index.manifest.plan
        if plan is None or plan.version == self.history.version:
            return
        self.history = PlanHistory(plan.version, is_learned(plan), self._clock())
        if self._asked:
            self._store.relearned(self._asked)
            self._asked = 0
        self._keep()
        self._say(f"from now on plan {plan.version} is used, with version {index.version} of the index")

    def measured(self, index: Index, noted: Noted, loads: Sequence[int]) -> None:
        """After a batch: how many of its posts were for each matcher, those withheld included.

        One that was replayed with an older plan says nothing about this one.
        """
        self.recent.add((noted.texts, noted.positions))
        plan = index.manifest.plan
        if noted.posts and plan is not None and plan.version == self.history.version:
            before, self.history = self.history, self.history.measured(noted.posts, loads)
            if before.value_at_first != self.history.value_at_first:
                self._keep()

    def told(self) -> dict[str, object]:
        """For the figures."""
        known = self.history
        return {
            "plan_version": known.version,
            "plan_value": known.value,
            "plan_value_at_first": known.value_at_first,
            "learning": self._follower.is_learning,
        }

    def _remembered(self, index: Index) -> PlanHistory:
        """What was noted of this very plan; else it begins now."""
        plan = index.manifest.plan
        if plan is None:
            return PlanHistory(1, False, self._clock())
        try:
            told = json.loads(self._kept.read_text("utf-8"))
            since, first = float(told["since"]), told["value_at_first"]
            if told["version"] == plan.version:
                return PlanHistory(plan.version, is_learned(plan), since, first and float(first))
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged: it is no more than a reminder
            pass
        return PlanHistory(plan.version, is_learned(plan), self._clock())

    def _keep(self) -> None:
        known = self.history
        told = {"version": known.version, "since": known.since, "value_at_first": known.value_at_first}
        write_whole(self._kept, json.dumps(told))


def is_learned(plan: PlanRecord) -> bool:
    """Whether a plan was learned or given; words are hashed until then."""
    return bool(plan.words or plan.space)
