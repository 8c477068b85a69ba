"""Load adjustment of a running stream (PS²Stream, V): what was measured is held against the plan at borders between
batches; what follows is made beside the stream, and switched to between two batches as a learned plan is."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tidings.atomic_io import write_whole
from tidings.balance.rebalance.global_policy import Finish, Look, OverallSettings, OverallState, next_step
from tidings.balance.rebalance.global_step import look, old_bytes, shares
from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import rebalanced
from tidings.balance.rebalance.options import AdjustRules
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import ENOUGH
from tidings.balance.spatial_fit import Located
from tidings.balance.spec import WantedPlan
from tidings.index.builder import Prepared, prepare_merge
from tidings.index.reader import Index
from tidings.routing.stats import Counts, Noted, summed
from tidings.stream.index_updater import Follower
from tidings.stream.options import Say

_NONE = np.zeros(0, np.int64)
_PAUSE_S = 10.0  # between two looks at the loads


@dataclass(frozen=True, slots=True)
class _Done:
    """An adjustment on its way: why, the bytes of subscriptions that move, when it was begun."""

    reason: str
    size_bytes: int
    begun: float


class Adjuster:
    """Decides at every border. Until a plan of places is there it has nothing to do."""

    def __init__(
        self,
        follower: Follower,
        wanted: WantedPlan,
        recent: RecentPosts,
        rules: AdjustRules,
        kept: Path = Path(os.devnull),
        say: Say = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._follower, self._recent, self._rules = follower, recent, rules
        self._wanted = wanted
        self._kept, self._say, self._clock = kept, say, clock
        self._looked_at = self._remembered()
        self._cells: Counts = _NONE
        self._by_cell: Counts = _NONE
        self._posts = 0
        self._version, self._not_before = 0, 0.0
        self._on_its_way: _Done | None = None
        self._told: dict[str, object] = {}
        self._count = self._size_bytes = 0
        self._seconds = 0.0

    def at_border(self) -> None:
        """Begin what is to be done, if anything is and nothing else is in the making."""
        plan = self._follower.index.manifest.plan
        if plan is None or not plan.space or self._follower.is_learning:
            return
        now = self._clock()
        step = next_step(self._state(), now, self._overall())
        if isinstance(step, Finish):
            self._begin(self._finished)
        elif isinstance(step, Look) and self._recent.count:
            if self._begin(partial(self._looked, self._recent.posts())):
                self._looked_at = now
                self._keep()
        elif not plan.before and self._tells_enough(now) and self._begin(self._to_rebalance()):
            self._not_before = now + _PAUSE_S
            self._forget()

    def at_version(self, index: Index) -> None:
        """The batch that begins uses this version."""
        plan = index.manifest.plan
        if plan is None or plan.version == self._version:
            return
        self._version = plan.version
        self._forget()
        done, self._on_its_way = self._on_its_way, None
        if done is not None:
            seconds = self._clock() - done.begun
            self._count, self._size_bytes = self._count + 1, self._size_bytes + done.size_bytes
            self._seconds += seconds
            self._told = {"reason": done.reason, "bytes": done.size_bytes, "seconds": seconds, "at": self._clock()}
            self._say(f"adjusted: {done.reason}; {done.size_bytes:,} bytes in {seconds:.1f} s")

    def measured(self, index: Index, noted: Noted) -> None:
        """After a batch; one that was replayed with an older plan says nothing about this one."""
        plan = index.manifest.plan
        if plan is not None and plan.version == self._version:
            self._cells, self._by_cell = summed([(self._cells, self._by_cell), (noted.cells, noted.by_cell)])
            self._posts += noted.posts

    def told(self) -> dict[str, object]:
        """For the figures."""
        return {
            "adjustments": self._count,
            "adjusted_bytes": self._size_bytes,
            "adjusting_seconds": round(self._seconds, 3),
            "last_adjustment": self._told,
            "old_plan_share": self.old_share(self._follower.index),
        }

    def _tells_enough(self, now: float) -> bool:
        return bool(self._rules.factor) and self._posts >= ENOUGH and now >= self._not_before

    def _to_rebalance(self) -> Callable[[Index], Prepared | None]:
        return partial(self._rebalanced, self._cells, self._by_cell, self._recent.posts())

    def _forget(self) -> None:
        """Count anew: what was counted has been looked at, or was of another plan."""
        self._cells, self._by_cell, self._posts = _NONE, _NONE, 0

    def _begin(self, make: Callable[[Index], Prepared | None]) -> bool:
        self._on_its_way = None
        return self._follower.make(make)

    def _overall(self) -> OverallSettings:
        every = float("inf") if self._rules.every_s is None else self._rules.every_s
        return replace(self._rules.overall, every_seconds=every)

    def _state(self) -> OverallState:
        plan = self._follower.index.manifest.plan
        is_double = plan is not None and bool(plan.before)
        old, new = shares(self._follower.index) if is_double else (0, 0)
        return OverallState(self._looked_at, is_double, old, new)

    # What follows runs in the follower's thread, on what it was given when it was begun.

    def _rebalanced(self, cells: Counts, by_cell: Counts, recent: Located, index: Index) -> Prepared | None:
        begun, settings = self._clock(), LocalSettings(sigma=self._rules.factor or float("inf"))
        found = rebalanced(index, cells, by_cell, recent, settings)
        if found is None:
            return None
        self._on_its_way = _Done(str(found), found.size_bytes, begun)
        return found.prepared

    def _looked(self, recent: Located, index: Index) -> Prepared | None:
        begun, learn = self._clock(), self._wanted.learn_anew(lambda: recent)
        found = look(index, learn, recent, self._state(), begun, self._overall())
        if found.prepared is not None:
            self._on_its_way = _Done(f"{found}: new subscriptions follow it", 0, begun)
        return found.prepared

    def _finished(self, index: Index) -> Prepared:
        begun, prepared = self._clock(), prepare_merge(index)
        share = self.old_share(index) or 0.0
        reason = f"the last {share:.0%} of the subscriptions that lay by the plan before were moved"
        self._on_its_way = _Done(reason, old_bytes(index), begun)
        return prepared

    @staticmethod
    def old_share(index: Index) -> float | None:
        """Which part of the subscriptions still lies by the plan before; None where there is none."""
        old, new = shares(index)
        return old / (old + new) if old else None

    def _remembered(self) -> float:
        """When a new plan was last looked for; now, where that is not known."""
        try:
            return float(json.loads(self._kept.read_text("utf-8"))["looked_at"])
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged: it is no more than a reminder
            return self._clock()

    def _keep(self) -> None:
        write_whole(self._kept, json.dumps({"looked_at": self._looked_at}))
