"""Rebalance the spatial plan of a running stream (PS²Stream, section V).

Before a batch, measured loads decide whether the plan changes. The new version is built in the background; the stream
switches to it between two batches, as it does after a plan refresh.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidings.balance.rebalance.global_policy import EvaluatePlan
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.spec import PlanSpec
from tidings.index.builder import UnpublishedVersion
from tidings.index.reader import Index
from tidings.log import Event
from tidings.matching.load import MatcherLoad
from tidings.routing.stats import RoutingStats
from tidings.stream.build_backoff import BuildBackoff
from tidings.stream.global_rebalancer import GlobalRebalancer, PrepareStep
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.local_rebalancer import LocalRebalancer

LOG = logging.getLogger("tidings.stream")


@dataclass(frozen=True, slots=True)
class _PendingStep:
    """A step that is being built: its reason, the bytes of subscriptions that move, details, when it started."""

    reason: str
    size_bytes: int
    details: dict[str, object]
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
        self._updater, self._clock = updater, clock
        self._local = LocalRebalancer(options, recent)
        self._global = GlobalRebalancer(spec, options, state_dir, clock)
        self._plan_version = 0
        self._pending: _PendingStep | None = None
        self._plan_builds, self._is_started = 0, False
        self._backoff = BuildBackoff()
        self._last_step: dict[str, object] = {}
        self._steps = self._moved_bytes = 0
        self._seconds = 0.0

    def before_batch(self) -> None:
        """Start the next step, if there is one and no other build is running."""
        index, now = self._updater.index, self._clock()
        plan = index.manifest.plan
        if plan is None or not plan.spatial_file or self._updater.is_building_plan or now < self._backoff.retry_at:
            return
        merge = self._local.next_merge(index)
        if merge is not None:
            if self._updater.start_build(merge):
                self._local.on_merge()
            return
        step = self._global.next_step(index, now)
        measured = None if isinstance(step, EvaluatePlan) else self._local.next_step(now)
        if measured is not None:
            if self._start(self._local.preparation(measured)):
                self._local.on_start(measured, now)
        elif step is not None and self._start(self._global.preparation(step)):
            self._global.on_start(step, now)

    def on_index_version(self, index: Index) -> None:
        """Note the version that the next batch uses; log a step that is now in effect."""
        plan = index.manifest.plan
        has_new_plan = plan is not None and plan.version != self._plan_version
        if plan is not None and has_new_plan:
            self._plan_version = plan.version
            self._local.forget()
        if self._is_started and not self._updater.is_building_plan:
            self._is_started = False
            self._note_end(has_new_plan)

    def _note_end(self, has_new_plan: bool) -> None:
        """Note the step that is now in effect, or why it failed."""
        step, self._pending = self._pending, None
        error, self._updater.plan_error = self._updater.plan_error, None
        if error is not None:
            self._backoff = self._backoff.add_failure(error, self._clock())
            self._global.on_failure()
            LOG.warning(Event("rebalancing failed", error=error, retry_s=round(self._backoff.retry_at - self._clock())))
            return
        self._backoff = BuildBackoff()
        if step is not None and self._updater.plan_builds > self._plan_builds:
            self._note_step(step, has_new_plan)

    def _note_step(self, step: _PendingStep, has_new_plan: bool) -> None:
        seconds = self._clock() - step.started_at
        self._steps, self._moved_bytes = self._steps + has_new_plan, self._moved_bytes + step.size_bytes
        self._seconds += seconds
        cost = {"bytes": step.size_bytes, "seconds": seconds}
        self._last_step = {"reason": step.reason, **cost, "at": self._clock(), **step.details}
        LOG.info(Event("plan rebalanced", reason=step.reason, bytes=step.size_bytes, seconds=round(seconds, 1)))

    def after_batch(self, index: Index, stats: RoutingStats, loads: Sequence[MatcherLoad]) -> None:
        """Add the loads of a batch, unless it was replayed with an older plan."""
        plan = index.manifest.plan
        if plan is not None and plan.version == self._plan_version:
            self._local.add_batch(stats, loads, index.manifest.log_position)
        self._global.add_posts((stats.sample_texts, stats.sample_positions), stats.posts)

    def status(self) -> dict[str, object]:
        """Return metrics about rebalancing."""
        return {
            "rebalances": self._steps,
            "rebalanced_bytes": self._moved_bytes,
            "rebalance_seconds": round(self._seconds, 3),
            "last_rebalance": self._last_step,
            "rebalance_failure": self._backoff.status(),
            **self._local.status(),
            **self._global.status(self._updater.index),
        }

    def close(self) -> None:
        """Save what the next run continues with."""
        self._global.save()

    def _start(self, prepare: PrepareStep) -> bool:
        self._pending, self._plan_builds = None, self._updater.plan_builds
        self._is_started = self._updater.start_build(partial(self._prepare, prepare))
        return self._is_started

    # The methods below run in the thread of the build, on the arguments they were started with.

    def _prepare(self, prepare: PrepareStep, index: Index) -> UnpublishedVersion | None:
        started_at, step = self._clock(), prepare(index)
        if step.prepared is not None:
            self._pending = _PendingStep(step.reason, step.size_bytes, step.details, started_at)
        return step.prepared
