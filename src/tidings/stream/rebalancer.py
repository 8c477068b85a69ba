"""Rebalance the spatial plan of a running stream (PS²Stream, section V).

Before a batch, measured loads decide whether the plan changes. The new version is built in the background; the stream
switches to it between two batches, as it does after a plan refresh.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import prepare_rebalancing
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import MIN_POSTS
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec
from tidings.index.builder import UnpublishedVersion
from tidings.index.reader import Index
from tidings.log import Event
from tidings.routing.stats import Counts, RoutingStats, sum_counts
from tidings.stream.global_rebalancer import GlobalRebalancer, PrepareStep, StepResult
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
        state_dir: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._updater, self._recent, self._options, self._clock = updater, recent, options, clock
        self._global = GlobalRebalancer(spec, options, state_dir, clock)
        self._cells: Counts = _NO_COUNTS
        self._posts_by_cell: Counts = _NO_COUNTS
        self._posts = 0
        self._plan_version, self._next_local_step_at = 0, 0.0
        self._pending: _PendingStep | None = None
        self._plan_builds = updater.plan_builds
        self._last_step: dict[str, object] = {}
        self._steps = self._moved_bytes = 0
        self._seconds = 0.0

    def before_batch(self) -> None:
        """Start the next step, if there is one and no other build is running."""
        index, now = self._updater.index, self._clock()
        plan = index.manifest.plan
        if plan is None or not plan.spatial_file or self._updater.is_building_plan:
            return
        step = self._global.next_step(index, now)
        is_local = step is None and self._may_step_locally(now)
        if is_local and self._start(self._local_step()):
            self._next_local_step_at = now + _LOCAL_STEP_PAUSE_S
            self._reset_counts()
        elif step is not None and self._start(self._global.preparation(step)):
            self._global.on_start(step, now)

    def on_index_version(self, index: Index) -> None:
        """Note the version that the next batch uses; log a step that is now in effect."""
        plan = index.manifest.plan
        has_new_plan = plan is not None and plan.version != self._plan_version
        if plan is not None and has_new_plan:
            self._plan_version = plan.version
            self._reset_counts()
        if self._updater.plan_builds == self._plan_builds:
            return
        self._plan_builds = self._updater.plan_builds
        step, self._pending = self._pending, None
        if step is not None:
            self._note_step(step, has_new_plan)

    def _note_step(self, step: _PendingStep, has_new_plan: bool) -> None:
        seconds = self._clock() - step.started_at
        self._steps, self._moved_bytes = self._steps + has_new_plan, self._moved_bytes + step.size_bytes
        self._seconds += seconds
        self._last_step = {"reason": step.reason, "bytes": step.size_bytes, "seconds": seconds, "at": self._clock()}
        LOG.info(Event("plan rebalanced", reason=step.reason, bytes=step.size_bytes, seconds=round(seconds, 1)))

    def after_batch(self, index: Index, stats: RoutingStats) -> None:
        """Add the loads of a batch, unless it was replayed with an older plan."""
        plan = index.manifest.plan
        if plan is not None and plan.version == self._plan_version:
            counted = [(self._cells, self._posts_by_cell), (stats.cells, stats.sent_by_cell)]
            self._cells, self._posts_by_cell = sum_counts(counted)
            self._posts += stats.posts
        self._global.add_posts((stats.sample_texts, stats.sample_positions), stats.posts)

    def status(self) -> dict[str, object]:
        """Return metrics about rebalancing."""
        return {
            "rebalances": self._steps,
            "rebalanced_bytes": self._moved_bytes,
            "rebalance_seconds": round(self._seconds, 3),
            "last_rebalance": self._last_step,
            **self._global.status(self._updater.index),
        }

    def close(self) -> None:
        """Save what the next run continues with."""
        self._global.save()

    def _may_step_locally(self, now: float) -> bool:
        return bool(self._options.factor) and self._posts >= MIN_POSTS and now >= self._next_local_step_at

    def _local_step(self) -> PrepareStep:
        return partial(self._move_cells, self._cells, self._posts_by_cell, self._recent.posts())

    def _reset_counts(self) -> None:
        self._cells, self._posts_by_cell, self._posts = _NO_COUNTS, _NO_COUNTS, 0

    def _start(self, prepare: PrepareStep) -> bool:
        self._pending = None
        return self._updater.start_build(partial(self._prepare, prepare))

    # The methods below run in the thread of the build, on the arguments they were started with.

    def _prepare(self, prepare: PrepareStep, index: Index) -> UnpublishedVersion | None:
        started_at, step = self._clock(), prepare(index)
        if step.prepared is not None:
            self._pending = _PendingStep(step.reason, step.size_bytes, started_at)
        return step.prepared

    def _move_cells(self, cells: Counts, by_cell: Counts, recent: PostSample, index: Index) -> StepResult:
        settings = LocalSettings(sigma=self._options.factor or float("inf"))
        step = prepare_rebalancing(index, cells, by_cell, recent, settings)
        return StepResult() if step is None else StepResult(step.prepared, str(step), step.size_bytes)
