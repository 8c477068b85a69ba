"""The index of a running stream. Between two batches it applies changes of subscriptions and of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.failpoints import failpoint
from tidings.index.reader import Index
from tidings.matching.load import MatcherLoad
from tidings.routing.stats import RoutingStats
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.plan_refresh import PlanRefresher
from tidings.stream.provenance import StoreProvenance
from tidings.stream.rebalancer import Rebalancer


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """The index, and the policies that change its plan."""

    updater: IndexUpdater
    refresher: PlanRefresher
    rebalancer: Rebalancer | None = None  # only for spatial plans
    provenance: StoreProvenance | None = None

    @property
    def current(self) -> Index:
        return self.updater.index

    def refresh(self, batch: int) -> Index:
        """Return the version for a new batch: with all changes, and with a plan that is ready."""
        self.refresher.before_batch()
        if self.rebalancer is not None:
            self.rebalancer.before_batch()
        switches_plan = self.updater.build_is_ready
        if switches_plan:
            failpoint("before-switch", batch)
        index = self.updater.refresh()
        if self.provenance is not None:
            self.provenance.record(index.manifest.log_position)
        if switches_plan:
            failpoint("after-switch", batch)
        if self.rebalancer is not None:
            self.rebalancer.on_index_version(index)  # first: it takes the errors of its own builds
        self.refresher.on_index_version(index)
        return index

    def observe_batch(self, index: Index, stats: RoutingStats, loads: Sequence[MatcherLoad]) -> None:
        """Learn from a finished batch."""
        self.refresher.after_batch(index, stats, [load.posts + load.shed for load in loads])
        if self.rebalancer is not None:
            self.rebalancer.after_batch(index, stats, loads)

    def close(self) -> None:
        """Save what the next run continues with."""
        if self.rebalancer is not None:
            self.rebalancer.close()

    def status(self) -> dict[str, object]:
        """Return metrics about the index and its plan."""
        waiting = {"waiting_subscriptions": self.updater.waiting_count}
        rebalancing = self.rebalancer.status() if self.rebalancer is not None else {}
        return {**waiting, **self.refresher.status(), **rebalancing}
