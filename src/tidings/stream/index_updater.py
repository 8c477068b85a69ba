"""Keep the index up to date with the subscriptions of a store: changes become a new version before the next batch.

Small segments are merged immediately. A thread builds a version in the background when many subscriptions changed, when
a new plan is fitted, and when cells of a spatial plan move to another matcher. The next refresh publishes that version
and then applies the changes that the store has logged since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tidings.errors import ChangeLogTruncated, IndexDamaged
from tidings.index.builder import (
    AnyPlan,
    FitPlan,
    UnpublishedVersion,
    apply_changes,
    prepare_merge,
    prepare_new_plan,
    rebuild_index,
)
from tidings.index.gc import delete_orphans, delete_versions
from tidings.index.manifest import PlanRecord, list_versions
from tidings.index.plan_files import load_plan
from tidings.index.reader import Index
from tidings.plan.space import SpatialPlan
from tidings.plan.words import LearnedPlan
from tidings.schemas import REGION_TYPE
from tidings.store import Store, Subscription

_MERGE_FRACTION = 4  # merge when a quarter of the base segments was added or removed
_MERGE_MIN_CHANGES = 1_000
_CLOSE_TIMEOUT_S = 3.0  # a stream must stop within ten seconds
_KEPT_VERSIONS = 8  # for tasks that still run, and for other readers


class IndexUpdater:
    """The newest version of the index of a store. Only one process may update a directory."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        plan: PlanRecord | None = None,
        learned: LearnedPlan | SpatialPlan | None = None,
    ) -> None:
        """Open or build the index. `plan` is the kind of plan; terms are hashed until one is learned or given."""
        self._store = store
        self._folder = folder
        self._plan = plan
        self._learned = learned
        self._build: _BackgroundBuild | None = None
        self.plan_error: BaseException | None = None  # of the last plan build
        self.merge_error: BaseException | None = None  # of the last merge
        self._merge_above = 0  # changes: a failed merge is tried again after twice as many
        self.index = self._open()

    def refresh(self) -> Index:
        """Return a version that contains every change made before this call."""
        self._publish_finished_build()
        try:
            self._apply_changes()
        except ChangeLogTruncated:
            plan = self.index.manifest.plan
            self.index = self._rebuild(plan and replace(plan, previous_file=""), load_plan(self._folder, plan))
        self._merge_if_worth_it()
        return self.index

    def start_refresh(self, fit: FitPlan) -> bool:
        """Start to fit a plan and to place all subscriptions by it; return False if a build is running."""
        return self.start_build(lambda index: prepare_new_plan(index, fit))

    def start_build(self, prepare: Callable[[Index], UnpublishedVersion | None]) -> bool:
        """Start to build a version with another plan; `prepare` returns None to keep the plan.

        Returns False if a build is running.
        """
        if self._build is not None:
            return False
        index, self.plan_error = self.index, None
        self._build = _BackgroundBuild(index, lambda: prepare(index), changes_plan=True)
        return True

    @property
    def is_building_plan(self) -> bool:
        """Whether a version with another plan is being built, or is ready for the next refresh."""
        return self._build is not None and self._build.changes_plan

    @property
    def build_is_ready(self) -> bool:
        """Whether the next refresh switches to another plan."""
        return self.is_building_plan and self._build is not None and not self._build.is_alive()

    def open_version(self, number: int) -> Index:
        """Open an older version for a replayed batch. Raises IndexDamaged if its files are incomplete."""
        return self.index if number == self.index.version else Index.open(self._folder, number, thoroughly=True)

    def delete_old_versions(self) -> None:
        """Delete versions that are neither recent nor pinned by a batch nor the input of a build."""
        recent = range(self.index.version - _KEPT_VERSIONS + 1, self.index.version + 1)
        building = {self._build.version} if self._build is not None else set()
        delete_versions(self._folder, self._store.batches.pinned_versions() | building | set(recent))

    def wait_for_build(self, timeout_s: float | None = None) -> None:
        """Wait until no build is running."""
        if self._build is not None:
            self._build.join(timeout_s)

    def close(self) -> None:
        """Wait a few seconds for a running build. The next start deletes the files of an unfinished one."""
        self.wait_for_build(_CLOSE_TIMEOUT_S)

    def _open(self) -> Index:
        """Open the newest version if it has the right kind of plan; build it from the store otherwise."""
        if not self._folder.is_dir() or not list_versions(self._folder):
            return self._build_first()
        delete_orphans(self._folder)
        index = Index.open(self._folder, thoroughly=True)
        plan, expected = index.manifest.plan, self._plan
        is_same = plan is expected if plan is None or expected is None else plan.is_compatible_with(expected)
        return index if is_same else self._build_first()

    def _build_first(self) -> Index:
        """Build with the given plan; without one terms are hashed, because there are no posts to learn from yet."""
        if self._plan is None:
            return self._rebuild(None, None)
        plan = replace(self._plan, version=self._last_plan_version() + 1)
        return self._rebuild(plan if self._learned is not None else replace(plan, algorithm="hash"), self._learned)

    def _rebuild(self, record: PlanRecord | None, plan: AnyPlan | None) -> Index:
        version = self._last_version() + 1
        self._folder.mkdir(parents=True, exist_ok=True)
        position = self._store.subscriptions.position()  # read first: later changes are applied again
        rows = _to_table(self._store.subscriptions.all())
        fit = None if plan is None else lambda terms, conjunctions: plan
        return rebuild_index(self._folder, version, rows, record, position, fit)[0]

    def _last_plan_version(self) -> int:
        return max((batch.plan_version for batch in self._store.batches.recent(limit=1)), default=0)

    def _last_version(self) -> int:
        """Return the last version on disk or in the ledger: the number of a lost version is not used again."""
        existing = list_versions(self._folder)[-1:] if self._folder.is_dir() else []
        used = [batch.index_version for batch in self._store.batches.recent(limit=1)]
        return max([0, *existing, *used, *self._store.batches.pinned_versions()])

    def _apply_changes(self) -> None:
        changes = self._store.subscriptions.net_changes(self.index.manifest.log_position)
        if changes.position == self.index.manifest.log_position:
            return
        added = _to_table(changes.added) if changes.added else None
        removed = pa.array(changes.removed, pa.int64())
        self.index, _ = apply_changes(self.index, added, removed, changes.position)

    def _merge_if_worth_it(self) -> None:
        """Start a merge, but not while two plans are in use: the rebalancer decides when the old one ends."""
        plan = self.index.manifest.plan
        has_two_plans = plan is not None and bool(plan.previous_file)
        threshold = max(_MERGE_MIN_CHANGES, _base_size(self.index) // _MERGE_FRACTION, self._merge_above)
        if self._build is None and not has_two_plans and _changes_since_merge(self.index) > threshold:
            index = self.index
            self._build = _BackgroundBuild(index, lambda: prepare_merge(index))

    def _publish_finished_build(self) -> None:
        if self._build is None or self._build.is_alive():
            return
        build, self._build = self._build, None
        if build.result is not None:
            self.index = build.result.publish(self.index.version + 1)
            self._merge_above = 0
        elif build.changes_plan:
            self.plan_error = build.error  # the current plan stays in use
        elif isinstance(build.error, OSError | MemoryError):  # out of space: the current segments stay in use
            self.merge_error, self._merge_above = build.error, 2 * _changes_since_merge(self.index)
        else:
            raise IndexDamaged(self._folder, f"could not be merged: {build.error}") from build.error


class _BackgroundBuild(threading.Thread):
    """Builds a version from the subscriptions of another version."""

    def __init__(
        self, index: Index, build: Callable[[], UnpublishedVersion | None], changes_plan: bool = False
    ) -> None:
        super().__init__(name="tidings-plan" if changes_plan else "tidings-merge", daemon=True)
        self._function = build
        self.version = index.version
        self.changes_plan = changes_plan
        self.result: UnpublishedVersion | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error


def _base_size(index: Index) -> int:
    return sum(shard[0].subscriptions for shard in index.manifest.shards if shard)


def _changes_since_merge(index: Index) -> int:
    """Return how many subscriptions were added (in later segments) or removed (still in some segment)."""
    records = [record for shard in index.manifest.shards for record in shard]
    return sum(record.subscriptions + record.removed_count for record in records) - _base_size(index)


def _to_table(subscriptions: Iterable[Subscription]) -> pa.Table:
    rows = [(row.id, row.query, list(row.region) if row.region else None) for row in subscriptions]
    ids, queries, regions = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = {"id": pa.int64(), "query": pa.string(), "region": REGION_TYPE}
    columns = zip(kinds.items(), (ids, queries, regions), strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in columns})
