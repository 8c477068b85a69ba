"""Check that the index in a work directory was derived from the store as it is now.

A store may be restored from a backup, moved, or replaced by another database. It then assigns the same ids to other
subscriptions, and an old index would report matches for queries of other users.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_atomically
from tidings.errors import ChangeLogTruncated, IndexDamaged
from tidings.index.manifest import list_versions, load_manifest
from tidings.store import Store
from tidings.stream.state_dir import SPILL

_DERIVED = ("index", SPILL)  # these refer to subscriptions by id


class StoreProvenance:
    """Records the last change of the store that is in the index, and when that change was made."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder, self._file = store, folder, folder / "provenance.json"
        self._recorded_position = -1

    def matches_store(self) -> bool:
        """Return whether the store has the recorded change; True if nothing was recorded or the change was deleted."""
        recorded = self._load()
        if max(self._index_position(), recorded.get("position", 0)) > self._store.subscriptions.position():
            return False
        return not recorded or self._change_at(recorded["position"]) in (recorded, {"position": recorded["position"]})

    def discard_derived_state(self) -> None:
        """Delete what was derived from another store; the index is built again."""
        for name in _DERIVED:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def record(self, position: int) -> None:
        """Record that the index contains all changes up to this position."""
        if position != self._recorded_position:
            write_atomically(self._file, json.dumps(self._change_at(position)))
            self._recorded_position = position

    def _change_at(self, position: int) -> dict[str, Any]:
        """Return the change at a position; only the position if retention deleted the change."""
        try:
            change = next(iter(self._store.subscriptions.change_log(position - 1, limit=1)), None)
        except ChangeLogTruncated:
            return {"position": position}
        return {} if change is None else {"position": position, "subscription": change.subscription, "at": change.at}

    def _load(self) -> dict[str, Any]:
        try:
            content = json.loads(self._file.read_text("utf-8"))
            return {**content, "position": int(content["position"])}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged
            return {}

    def _index_position(self) -> int:
        """Return the position of the newest index version; 0 if it is missing or damaged."""
        with suppress(IndexDamaged):  # reported when the index is opened
            folder = self._folder / "index"
            if folder.is_dir() and (versions := list_versions(folder)):
                return load_manifest(folder, versions[-1]).log_position
        return 0
