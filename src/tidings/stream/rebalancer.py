"""Rebalance the spatial plan of a running stream (PS²Stream, section V).

Before a batch, measured loads decide whether the plan changes. The new version is built in the background; the stream
switches to it between two batches, as it does after a plan refresh.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tidings.atomic_io import write_atomically
from tidings.balance.rebalance.global_policy import (
    EvaluatePlan,
    FinishMigration,
    GlobalSettings,
    GlobalState,
    next_step,
)
from tidings.balance.rebalance.global_step import count_by_plan, estimate_old_bytes, evaluate_new_plan
from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import prepare_rebalancing
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import MIN_POSTS
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec
from tidings.index.builder import UnpublishedVersion, prepare_merge
from tidings.index.reader import Index
from tidings.log import Event
from tidings.routing.stats import Counts, RoutingStats, sum_counts
from tidings.stream.index_updater import IndexUpdater

LOG = logging.getLogger("tidings.stream")
_NO_COUNTS = np.zeros(0, np.int64)
_LOCAL_STEP_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True)
class _PendingStep:
    """A step that is being built: its reason, the bytes of subscriptions that move, when it started."""

    reason: str
    size_bytes: int
    started_at: float


class Rebalancer:
    """Decides before every batch. Idle until there is a spatial plan."""

    def __init__(
        self,
        updater: IndexUpdater,
        spec: PlanSpec,
        recent: RecentPosts,
        options: RebalanceOptions,
        state_file: Path = Path(os.devnull),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._updater, self._spec, self._recent, self._options = updater, spec, recent, options
        self._state_file, self._clock = state_file, clock
        self._evaluated_at = self._load_evaluated_at()
        self._cells: Counts = _NO_COUNTS
        self._posts_by_cell: Counts = _NO_COUNTS
        self._posts = 0
        self._plan_version, self._next_local_step_at = 0, 0.0
        self._pending: _PendingStep | None = None
        self._last_step: dict[str, object] = {}
        self._steps = self._moved_bytes = 0
        self._seconds = 0.0

    def before_batch(self) -> None:
        """Start the next step, if there is one and no other build is running."""
        plan = self._updater.index.manifest.plan
        if plan is None or not plan.spatial_file or self._updater.is_building_plan:
            return
        now = self._clock()
        step = next_step(self._global_state(), now, self._global_settings())
        if isinstance(step, FinishMigration):
            self._start(self._finish_global_step)
        elif isinstance(step, EvaluatePlan) and self._recent.count:
            if self._start(partial(self._evaluate_new_plan, self._recent.posts())):
                self._evaluated_at = now
                self._save_evaluated_at()
        elif not plan.previous_file and self._may_step_locally(now) and self._start(self._local_step()):
            self._next_local_step_at = now + _LOCAL_STEP_PAUSE_S
            self._reset_counts()

    def on_index_version(self, index: Index) -> None:
        """Note the version that the next batch uses; log a step that is now in effect."""
        plan = index.manifest.plan
        if plan is None or plan.version == self._plan_version:
            return
        self._plan_version = plan.version
        self._reset_counts()
        step, self._pending = self._pending, None
        if step is not None:
            seconds = self._clock() - step.started_at
            self._steps, self._moved_bytes = self._steps + 1, self._moved_bytes + step.size_bytes
            self._seconds += seconds
            self._last_step = {
                "reason": step.reason, "bytes": step.size_bytes, "seconds": seconds, "at": self._clock()
            }  # fmt: skip
            LOG.info(Event("plan rebalanced", reason=step.reason, bytes=step.size_bytes, seconds=round(seconds, 1)))

    def after_batch(self, index: Index, stats: RoutingStats) -> None:
        """Add the loads of a batch, unless it was replayed with an older plan."""
        plan = index.manifest.plan
        if plan is not None and plan.version == self._plan_version:
            counted = [(self._cells, self._posts_by_cell), (stats.cells, stats.sent_by_cell)]
            self._cells, self._posts_by_cell = sum_counts(counted)
            self._posts += stats.posts

    def status(self) -> dict[str, object]:
        """Return metrics about rebalancing."""
        return {
            "rebalances": self._steps,
            "rebalanced_bytes": self._moved_bytes,
            "rebalance_seconds": round(self._seconds, 3),
            "last_rebalance": self._last_step,
            "previous_plan_share": previous_plan_share(self._updater.index),
        }

    def _may_step_locally(self, now: float) -> bool:
        return bool(self._options.factor) and self._posts >= MIN_POSTS and now >= self._next_local_step_at

    def _local_step(self) -> Callable[[Index], UnpublishedVersion | None]:
        return partial(self._move_cells, self._cells, self._posts_by_cell, self._recent.posts())

    def _reset_counts(self) -> None:
        self._cells, self._posts_by_cell, self._posts = _NO_COUNTS, _NO_COUNTS, 0

    def _start(self, build: Callable[[Index], UnpublishedVersion | None]) -> bool:
        self._pending = None
        return self._updater.start_build(build)

    def _global_settings(self) -> GlobalSettings:
        every = float("inf") if self._options.interval_s is None else self._options.interval_s
        return replace(self._options.global_settings, interval_s=every)

    def _global_state(self) -> GlobalState:
        plan = self._updater.index.manifest.plan
        has_two_plans = plan is not None and bool(plan.previous_file)
        old, new = count_by_plan(self._updater.index) if has_two_plans else (0, 0)
        return GlobalState(self._evaluated_at, has_two_plans, old, new)

    # The methods below run in the thread of the build, on the arguments they were started with.

    def _move_cells(
        self, cells: Counts, by_cell: Counts, recent: PostSample, index: Index
    ) -> UnpublishedVersion | None:
        started_at, settings = self._clock(), LocalSettings(sigma=self._options.factor or float("inf"))
        step = prepare_rebalancing(index, cells, by_cell, recent, settings)
        if step is None:
            return None
        self._pending = _PendingStep(str(step), step.size_bytes, started_at)
        return step.prepared

    def _evaluate_new_plan(self, recent: PostSample, index: Index) -> UnpublishedVersion | None:
        started_at, fit = self._clock(), self._spec.refit(lambda: recent)
        step = evaluate_new_plan(index, fit, recent, self._global_state(), started_at, self._global_settings())
        if step.prepared is not None:
            self._pending = _PendingStep(f"{step}: new subscriptions use it", 0, started_at)
        return step.prepared

    def _finish_global_step(self, index: Index) -> UnpublishedVersion:
        started_at, version = self._clock(), prepare_merge(index)
        share = previous_plan_share(index) or 0.0
        reason = f"moved the last {share:.0%} of the subscriptions from the previous plan"
        self._pending = _PendingStep(reason, estimate_old_bytes(index), started_at)
        return version

    def _load_evaluated_at(self) -> float:
        """Return when a new plan was last evaluated; now if unknown."""
        try:
            return float(json.loads(self._state_file.read_text("utf-8"))["evaluated_at"])
        except (OSError, ValueError, KeyError, TypeError):  # missing or damaged: the interval starts again
            return self._clock()

    def _save_evaluated_at(self) -> None:
        write_atomically(self._state_file, json.dumps({"evaluated_at": self._evaluated_at}))


def previous_plan_share(index: Index) -> float | None:
    """Return the share of subscriptions that are still placed by the previous plan; None if there is only one plan."""
    old, new = count_by_plan(index)
    return old / (old + new) if old else None
