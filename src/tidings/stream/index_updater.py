"""An index that follows the subscriptions of a store: every change is a new version, ready for the next batch.

Small segments are folded at once. When much has changed, the whole is merged in a thread of its own; so it is when a
plan is learned anew, and when cells of a space plan go to another matcher. The version made aside is published at the
next refresh, and what changed meanwhile is read from the store's log again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tidings.errors import ChangeLogTruncated, IndexDamaged
from tidings.index.builder import Learn, Plan, Prepared, change_index, prepare_merge, prepare_relearned, rebuild_index
from tidings.index.gc import retire_versions, sweep
from tidings.index.manifest import PlanRecord, versions
from tidings.index.merge_policy import fold_index
from tidings.index.plan_files import plan_of
from tidings.index.reader import Index
from tidings.plan.space import SpacePlan
from tidings.plan.words import LearnedPlan
from tidings.schemas import REGION_TYPE
from tidings.store import Store, Subscription

_MUCH = 4  # a merge is worth it when a quarter of the base has come or gone
_LEAST = 1_000  # and this many at least
_CLOSING_S = 3.0  # a stream that is told to stop stops within ten
_KEPT_VERSIONS = 8  # for tasks that still run, and for whoever looks


class IndexUpdater:
    """The newest version, kept up to date with a store. One process at a time may follow into a folder."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        plan: PlanRecord | None = None,
        learned: LearnedPlan | SpacePlan | None = None,
    ) -> None:
        """`plan` says of what kind the index is to be; words are hashed until a plan is given or learned."""
        self._store = store
        self._folder = folder
        self._plan = plan
        self._learned = learned
        self._making: _Making | None = None
        self.plan_error: BaseException | None = None  # of what was learned last
        self.merge_error: BaseException | None = None  # of the last merge
        self._merged_above = 0  # changes: a merge that failed is tried again when there are twice as many
        self.index = self._opened()

    def refresh(self) -> Index:
        """The version that holds every change made before this call."""
        self._take_made()
        try:
            self._follow()
        except ChangeLogTruncated:
            plan = self.index.manifest.plan
            self.index = self._rebuilt(plan and replace(plan, before=""), plan_of(self._folder, plan))
        self._merge_if_worth_it()
        return self.index

    def relearn(self, learn: Learn) -> bool:
        """Begin to learn a plan, and to place all subscriptions by it; False while another version is in the making."""
        return self.make(lambda index: prepare_relearned(index, learn))

    def make(self, prepare: Callable[[Index], Prepared | None]) -> bool:
        """Begin to make a version with another plan; None says that the one in use stays."""
        if self._making is not None:
            return False
        index, self.plan_error = self.index, None
        self._making = _Making(index, lambda: prepare(index), learns=True)
        return True

    @property
    def is_building_plan(self) -> bool:
        """Whether a plan is being learned or changed, or was and waits for the next refresh."""
        return self._making is not None and self._making.learns

    @property
    def build_is_ready(self) -> bool:
        """Whether the next refresh switches to a plan learned meanwhile."""
        return self.is_building_plan and self._making is not None and not self._making.is_alive()

    def version(self, number: int) -> Index:
        """An older version, for a batch that is replayed; IndexDamaged when its files are not whole any more."""
        return self.index if number == self.index.version else Index.open(self._folder, number, thoroughly=True)

    def retire(self) -> None:
        """Delete versions nobody needs: not pinned by a batch, not of late."""
        late = range(self.index.version - _KEPT_VERSIONS + 1, self.index.version + 1)
        making = {self._making.version} if self._making is not None else set()  # it still reads the files of that one
        retire_versions(self._folder, self._store.pinned() | making | set(late))

    def wait_for_build(self, seconds: float | None = None) -> None:
        """Wait for a version that is in the making, so long at most."""
        if self._making is not None:
            self._making.join(seconds)

    def close(self) -> None:
        """Wait a little for a version that is in the making; its files are swept up at the next start."""
        self.wait_for_build(_CLOSING_S)

    def _opened(self) -> Index:
        """The newest version if it is whole and made for this plan; else all subscriptions are compiled anew."""
        if not self._folder.is_dir() or not versions(self._folder):
            return self._first()
        sweep(self._folder)
        index = Index.open(self._folder, thoroughly=True)
        plan, wanted = index.manifest.plan, self._plan
        same = plan is wanted if plan is None or wanted is None else plan.serves(wanted)
        return index if same else self._first()

    def _first(self) -> Index:
        """By the plan that is given; without, words are hashed: the posts to learn from are yet to come."""
        if self._plan is None:
            return self._rebuilt(None, None)
        plan = replace(self._plan, version=self._last_plan_version() + 1)
        return self._rebuilt(plan if self._learned is not None else replace(plan, algorithm="hash"), self._learned)

    def _rebuilt(self, plan: PlanRecord | None, by: Plan | None) -> Index:
        version = self._last_version() + 1
        self._folder.mkdir(parents=True, exist_ok=True)
        position = self._store.position()  # read first: what comes in while we read is told again
        rows = _table(self._store.QQ_subscriptions_QQ())
        learn = None if by is None else lambda terms, conjunctions: by
        return rebuild_index(self._folder, version, rows, plan, position, learn)[0]

    def _last_plan_version(self) -> int:
        return max((batch.plan_version for batch in self._store.ledger(last=1)), default=0)

    def _last_version(self) -> int:
        """The last that is there or that a batch was matched with: the number of lost files is not given again."""
        there = versions(self._folder)[-1:] if self._folder.is_dir() else []
        used = [batch.index_version for batch in self._store.ledger(last=1)]
        return max([0, *there, *used, *self._store.pinned()])

    def _follow(self) -> None:
        changed = self._store.changed(self.index.manifest.position)
        if changed.position == self.index.manifest.position:
            return
        added = _table(changed.added) if changed.added else None
        removed = pa.array(changed.removed, pa.int64())
        self.index = fold_index(change_index(self.index, added, removed, changed.position)[0])

    def _merge_if_worth_it(self) -> None:
        """Not while two plans live side by side: then old subscriptions stay until few are left (`adjust/overall`)."""
        plan = self.index.manifest.plan
        is_double = plan is not None and bool(plan.before)
        much = max(_LEAST, _base(self.index) // _MUCH, self._merged_above)
        if self._making is None and not is_double and _weight(self.index) > much:
            index = self.index
            self._making = _Making(index, lambda: prepare_merge(index))

    def _take_made(self) -> None:
        """Publish a version made aside; the next step brings in what changed while it was made."""
        if self._making is None or self._making.is_alive():
            return
        made, self._making = self._making, None
        if made.prepared is not None:
            self.index = made.prepared.publish(self.index.version + 1)
            self._merged_above = 0
        elif made.learns:
            self.plan_error = made.failure  # the plan there is serves as before
        elif isinstance(made.failure, OSError | MemoryError):  # no room for it: the segments there are serve as before
            self.merge_error, self._merged_above = made.failure, 2 * _weight(self.index)
        else:
            raise IndexDamaged(self._folder, f"could not be merged: {made.failure}") from made.failure


class _Making(threading.Thread):
    """A version in the making, of the subscriptions that another version holds."""

    def __init__(self, index: Index, make: Callable[[], Prepared | None], learns: bool = False) -> None:
        super().__init__(name="tidings-learn" if learns else "tidings-merge", daemon=True)
        self._make = make
        self.version = index.version
        self.learns = learns
        self.prepared: Prepared | None = None
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.prepared = self._make()
        except BaseException as error:
            self.failure = error


def _base(index: Index) -> int:
    return sum(shard[0].subscriptions for shard in index.manifest.shards if shard)


def _weight(index: Index) -> int:
    """How many subscriptions came (they are in later segments) or went (they still lie in some segment)."""
    records = [record for shard in index.manifest.shards for record in shard]
    return sum(record.subscriptions + record.gone for record in records) - _base(index)


def _table(subscriptions: Iterable[Subscription]) -> pa.Table:
    rows = [(one.id, one.query, list(one.region) if one.region else None) for one in subscriptions]
    ids, queries, regions = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = {"id": pa.int64(), "query": pa.string(), "region": REGION_TYPE}
    columns = zip(kinds.items(), (ids, queries, regions), strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in columns})
