"""An index that follows the subscriptions of a store: every change is a new version, ready for the next batch.

Small segments are folded at once. When much has changed, the whole is merged in a thread of its own; the merged version
is published at the next refresh, and what changed meanwhile is read from the store's log again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from tidings.errors import ChangesForgotten, IndexDamaged
from tidings.index.fold import fold_index
from tidings.index.index import Index
from tidings.index.manifest import PlanRecord, versions
from tidings.index.publish import Prepared, change_index, prepare_merge, rebuild_index
from tidings.index.retire import retire_versions, sweep
from tidings.model import REGION_TYPE
from tidings.store import Store, Subscription

_MUCH = 4  # a merge is worth it when a quarter of the base has come or gone
_LEAST = 1_000  # and this many at least
_KEPT_VERSIONS = 8  # for tasks that still run, and for whoever looks


class Follower:
    """The newest version, kept up to date with a store. One process at a time may follow into a folder."""

    def __init__(self, store: Store, folder: Path, plan: PlanRecord | None = None) -> None:
        self._store = store
        self._folder = folder
        self._plan = plan
        self._merge: _Merge | None = None
        self.index = self._opened()

    def refresh(self) -> Index:
        """The version that holds every change made before this call."""
        self._take_merged()
        try:
            self._follow()
        except ChangesForgotten:
            self.index = self._rebuilt()
        self._merge_if_worth_it()
        return self.index

    def version(self, number: int) -> Index:
        """An older version, for a batch that is replayed; IndexDamaged when its files are not whole any more."""
        return self.index if number == self.index.version else Index.open(self._folder, number, thoroughly=True)

    def retire(self) -> None:
        """Delete versions nobody needs: not pinned by a batch, not of late."""
        late = range(self.index.version - _KEPT_VERSIONS + 1, self.index.version + 1)
        merging = {self._merge.version} if self._merge is not None else set()  # it still reads the files of that one
        retire_versions(self._folder, self._store.pinned() | merging | set(late))

    def close(self) -> None:
        """Wait for a merge that is under way; its files are swept up at the next start."""
        if self._merge is not None:
            self._merge.join()

    def _opened(self) -> Index:
        """The newest version if it is whole and made for this plan; else all subscriptions are compiled anew."""
        if not self._folder.is_dir() or not versions(self._folder):
            return self._rebuilt()
        sweep(self._folder)
        index = Index.open(self._folder, thoroughly=True)
        return index if index.manifest.plan == self._plan else self._rebuilt()

    def _rebuilt(self) -> Index:
        version = self._last_version() + 1
        self._folder.mkdir(parents=True, exist_ok=True)
        position = self._store.position()  # read first: what comes in while we read is told again
        rows = _table(self._store.subscriptions())
        return rebuild_index(self._folder, version, rows, self._plan, position)[0]

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
        if self._merge is None and _weight(self.index) > max(_LEAST, _base(self.index) // _MUCH):
            self._merge = _Merge(self.index)

    def _take_merged(self) -> None:
        """Publish a merge that is done; the next step brings in what changed while it was made."""
        if self._merge is None or self._merge.is_alive():
            return
        merge, self._merge = self._merge, None
        if merge.prepared is None:
            raise IndexDamaged(self._folder, f"could not be merged: {merge.failure}") from merge.failure
        self.index = merge.prepared.publish(self.index.version + 1)


class _Merge(threading.Thread):
    """A merge in the making."""

    def __init__(self, index: Index) -> None:
        super().__init__(name="tidings-merge", daemon=True)
        self._index = index
        self.version = index.version
        self.prepared: Prepared | None = None
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.prepared = prepare_merge(self._index)
        except BaseException as error:
            self.failure = error


def _base(index: Index) -> int:
    return sum(shard[0].subscriptions for shard in index.manifest.shards if shard)


def _weight(index: Index) -> int:
    """How many subscriptions came (they are in later segments) or went (they still lie in some segment)."""
    stored = sum(record.subscriptions for shard in index.manifest.shards for record in shard)
    return (stored - _base(index)) + max(0, stored - index.manifest.subscriptions)


def _table(subscriptions: Iterable[Subscription]) -> pa.Table:
    rows = [(one.id, one.query, list(one.region) if one.region else None) for one in subscriptions]
    ids, queries, regions = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = {"id": pa.int64(), "query": pa.string(), "region": REGION_TYPE}
    columns = zip(kinds.items(), (ids, queries, regions), strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in columns})
