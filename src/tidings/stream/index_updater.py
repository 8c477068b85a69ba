"""Keep the index up to date with the subscriptions of a store: changes become a new version before the next batch.

A batch waits only for additions up to a cost, of all owners in turn (`waiting_changes.py`); a process compiles the
others (`bulk_build.py`). Small segments are merged immediately. A thread builds a version in the background when many
subscriptions changed, when a new plan is fitted, and when cells of a spatial plan move to another matcher. The refresh
after a build publishes its version and repeats the changes that were applied since the build began.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tidings.balance.spec import QUICK_SAMPLE_POSTS
from tidings.errors import ChangeLogTruncated, IndexDamaged
from tidings.index.builder import (
    AnyPlan,
    CountTerms,
    FitPlan,
    UnpublishedVersion,
    apply_changes,
    prepare_merge,
    prepare_new_plan,
    rebuild_index,
)
from tidings.index.gc import delete_orphans, delete_versions
from tidings.index.manifest import PlanRecord, list_versions
from tidings.index.plan_files import has_grown, load_plan
from tidings.index.reader import Index
from tidings.log import Event
from tidings.plan.space import SpatialPlan
from tidings.plan.words import LearnedPlan
from tidings.store import Store
from tidings.stream.background_build import AppliedChanges, BackgroundBuild
from tidings.stream.bulk_build import BulkBuild, to_table
from tidings.stream.recent_terms import MIN_COUNTED_POSTS, RecentTerms
from tidings.stream.waiting_changes import WaitingChanges

LOG = logging.getLogger("tidings.stream")

_MERGE_FRACTION = 4  # merge when a quarter of the base segments was added or removed
_MERGE_MIN_CHANGES = 1_000
_CLOSE_TIMEOUT_S = 3.0  # a stream must stop within ten seconds
BATCH_UNITS = 500  # the cost of the additions that a batch waits for: 10 to 50 ms
BULK_UNITS_PER_OWNER = 200_000  # of one build, so that the additions of other owners do not wait longer
_RETRY_BATCHES = 100  # after a build of many additions failed
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
        self._build: BackgroundBuild | None = None
        self.plan_error: BaseException | None = None  # of the last plan build
        self.merge_error: BaseException | None = None  # of the last merge
        self.bulk_error: BaseException | None = None  # of the last build of many additions
        self._no_bulk_for = 0  # batches
        self.terms = RecentTerms(2 * MIN_COUNTED_POSTS if plan is None else QUICK_SAMPLE_POSTS)
        self._merge_above = 0  # changes: a failed merge is tried again after twice as many
        self._leftovers: list[BackgroundBuild] = []  # builds whose files belong to no version
        self._deleting = threading.Lock()
        self.plan_builds = 0  # that were published
        self._is_plan_waiting = False  # for the end of another build
        self._since_build = AppliedChanges()
        self._waiting: WaitingChanges | None = None  # None until the first refresh
        self.index = self._open()

    @property
    def waiting_count(self) -> int:
        """The number of subscriptions that are not in the index yet."""
        return 0 if self._waiting is None else len(self._waiting)

    def refresh(self) -> Index:
        """Return a version with all removals and small additions made before this call.

        Large additions follow in later calls. The first call applies all: what was live before a restart stays live.
        """
        repeated = self._publish_finished_build()
        self._delete_leftovers()
        try:
            if self._waiting is None:
                self._waiting = self._apply_all_changes()
            else:
                self._apply_changes(self._waiting, repeated)
        except ChangeLogTruncated:
            self._rebuild_from_store()
        self._build_if_worth_it()
        return self.index

    def start_refresh(self, fit: FitPlan) -> bool:
        """Start to fit a plan and to place all subscriptions by it; return False if a build is running."""
        return self.start_build(lambda index: prepare_new_plan(index, fit))

    def start_build(self, prepare: Callable[[Index], UnpublishedVersion | None]) -> bool:
        """Start to build a version with another plan; `prepare` returns None to keep the plan.

        Returns False if a build is running. Then no other build follows it before the next call.
        """
        self._is_plan_waiting = self._build is not None
        if self._is_plan_waiting:
            return False
        index, self.plan_error = self.index, None
        self._start(BackgroundBuild(index, lambda: prepare(index), changes_plan=True))
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
        """Delete versions that are neither recent nor pinned by a batch nor the input of a build. Any thread may."""
        recent = range(self.index.version - _KEPT_VERSIONS + 1, self.index.version + 1)
        building = {self._build.version} if self._build is not None else set()
        keep = self._store.batches.pinned_versions() | building | set(recent)
        with self._deleting:
            delete_versions(self._folder, keep)

    def wait_for_build(self, timeout_s: float | None = None) -> None:
        """Wait until no build is running."""
        if self._build is not None:
            self._build.join(timeout_s)

    def close(self) -> None:
        """Wait a few seconds for a running build. The next start deletes the files of an unfinished one."""
        if self._build is not None and self._build.bulk is not None:
            self._build.bulk.stop()
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

    def _rebuild(self, record: PlanRecord | None, plan: AnyPlan | None, count_terms: CountTerms | None = None) -> Index:
        version = self._last_version() + 1
        self._folder.mkdir(parents=True, exist_ok=True)
        position = self._store.subscriptions.position()  # read first: later changes are applied again
        rows = to_table(self._store.subscriptions.all())
        fit = None if plan is None else lambda terms, conjunctions: plan
        return rebuild_index(self._folder, version, rows, record, position, fit, count_terms)[0]

    def _last_plan_version(self) -> int:
        return max((batch.plan_version for batch in self._store.batches.recent(limit=1)), default=0)

    def _last_version(self) -> int:
        """Return the last version on disk or in the ledger: the number of a lost version is not used again."""
        existing = list_versions(self._folder)[-1:] if self._folder.is_dir() else []
        used = [batch.index_version for batch in self._store.batches.recent(limit=1)]
        return max([0, *existing, *used, *self._store.batches.pinned_versions()])

    def _apply_all_changes(self) -> WaitingChanges:
        """Apply all changes after the position of the index; some may be in it already, which is harmless."""
        changes = self._store.subscriptions.net_changes(self.index.manifest.log_position)
        if changes.position != self.index.manifest.log_position:
            added = to_table(changes.added) if changes.added else None
            self.index, _ = apply_changes(self.index, added, pa.array(changes.removed, pa.int64()), changes.position)
            self._since_build.extend([row.id for row in changes.added], list(changes.removed))
        return WaitingChanges(changes.position)

    def _apply_changes(self, waiting: WaitingChanges, repeated: AppliedChanges) -> None:
        removed = waiting.read(self._store.subscriptions)
        added = waiting.take(BATCH_UNITS, at_least_one=self.bulk_error is not None)
        self._since_build.extend(added, removed)
        repeated.extend(added, removed)
        position = waiting.included_position()
        if not repeated and position == self.index.manifest.log_position:
            return
        rows = to_table(self._store.subscriptions.get_many(repeated.added))
        removed_ids = pa.array(repeated.removed, pa.int64())
        self.index, _ = apply_changes(self.index, rows if len(rows) else None, removed_ids, position)

    def _rebuild_from_store(self) -> None:
        """Build the index again, because the log does not reach back to its position."""
        self._discard_build()
        plan = self.index.manifest.plan
        record, statistics = plan and replace(plan, previous_file=""), self.index.statistics
        self.index = self._rebuild(record, load_plan(self._folder, plan), lambda: statistics)
        self._waiting = WaitingChanges(self.index.manifest.log_position)

    def _start(self, build: BackgroundBuild) -> None:
        self._build, self._since_build = build, AppliedChanges()

    def _discard_build(self) -> None:
        """Forget a running build, whose version would lack changes."""
        if self._build is not None:
            if self._build.bulk is not None:
                self._build.bulk.stop()
            self._leftovers.append(self._build)
        self._build = None

    def _delete_leftovers(self) -> None:
        """Delete the files of builds that failed or were discarded, once nothing else is written."""
        if not self._leftovers or self._build is not None or any(build.is_alive() for build in self._leftovers):
            return
        self._leftovers.clear()
        with self._deleting, suppress(IndexDamaged):  # of an old version, which the batch that needs it reports
            delete_orphans(self._folder)

    def _build_if_worth_it(self) -> None:
        """Start to compile additions that wait, or else a merge."""
        waiting = self._waiting
        self._no_bulk_for = max(self._no_bulk_for - 1, 0)
        if self._build is not None or waiting is None:
            return
        if self._is_plan_waiting:  # it would wait for ever if other builds followed each other
            self._is_plan_waiting = False
            return
        if waiting.can_build and waiting.is_up_to_date and not self._no_bulk_for:
            bulk = BulkBuild(self._store, self.index, waiting.begin_build(BULK_UNITS_PER_OWNER))
            self._start(BackgroundBuild(self.index, bulk.run, bulk=bulk))
        else:
            self._merge_if_worth_it()

    def _merge_if_worth_it(self) -> None:
        """Start a merge, which also ends the previous plan if two are in use, and compacts a spatial plan."""
        threshold = max(_MERGE_MIN_CHANGES, _base_size(self.index) // _MERGE_FRACTION, self._merge_above)
        is_due = _changes_since_merge(self.index) > threshold or self._plan_has_grown
        if self._build is None and (is_due or self.terms.must_count(self.index)):
            index, count_terms = self.index, self.terms.counter(self.index)
            self._start(BackgroundBuild(index, lambda: prepare_merge(index, count_terms())))

    @property
    def _plan_has_grown(self) -> bool:
        plan = self.index.manifest.plan
        if plan is None or not plan.spatial_file or self._merge_above or not any(self.index.manifest.shards):
            return False
        return has_grown(self._folder / plan.spatial_file)

    def _publish_finished_build(self) -> AppliedChanges:
        """Switch to the version of a finished build; return the changes that must be repeated on it."""
        if self._build is None or self._build.is_alive():
            return AppliedChanges()
        build, self._build = self._build, None
        if build.bulk is not None:
            self._end_bulk(build.error)
        if build.result is not None:
            self.index = build.result.publish(self.index.version + 1)
            self.plan_builds += build.changes_plan
            self._merge_above = 0 if build.bulk is None else self._merge_above
            repeated, self._since_build = self._since_build, AppliedChanges()
            return repeated
        if build.error is not None:
            self._leftovers.append(build)
        self._note_failure(build)
        return AppliedChanges()

    def _end_bulk(self, error: BaseException | None) -> None:
        assert self._waiting is not None
        self._waiting.end_build(is_done=error is None)
        self.bulk_error = error
        if error is not None:
            self._no_bulk_for = _RETRY_BATCHES
            LOG.warning(Event("subscriptions are compiled slowly", reason=str(error)))

    def _note_failure(self, build: BackgroundBuild) -> None:
        if build.bulk is not None:
            return
        if build.changes_plan:
            self.plan_error = build.error  # the current plan stays in use
        elif isinstance(build.error, OSError | MemoryError):  # out of space: the current segments stay in use
            self.merge_error, self._merge_above = build.error, max(1, 2 * _changes_since_merge(self.index))
        else:
            raise IndexDamaged(self._folder, f"could not be merged: {build.error}") from build.error


def _base_size(index: Index) -> int:
    return sum(shard[0].subscriptions for shard in index.manifest.shards if shard)


def _changes_since_merge(index: Index) -> int:
    """Return how many subscriptions were added (in later segments) or removed (still in some segment).

    While two plans are in use, slices add and remove subscriptions too, so only removals by users are counted.
    """
    plan, records = index.manifest.plan, [record for shard in index.manifest.shards for record in shard]
    if plan is not None and plan.previous_file:
        return sum(record.removed_count for record in records if not record.by_previous_plan)
    return sum(record.subscriptions + record.removed_count for record in records) - _base_size(index)
