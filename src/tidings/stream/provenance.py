"""Whether what lies in the folder of a stream was made from the store as it is.

A store may have been put back from a copy or moved away, or be another database than last time. Its subscriptions are
then numbered anew, so that an index made before would find posts for a query that somebody else once asked.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_whole
from tidings.errors import ChangeLogTruncated, IndexDamaged
from tidings.index.manifest import load_manifest, versions
from tidings.store import Store

_MADE_FROM = ("index", "found")  # what says of subscriptions by their ids


class StoreProvenance:
    """Remembers the last change of the store that the index holds, and when that was made."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder, self._file = store, folder, folder / "followed.json"
        self._noted = -1

    def holds(self) -> bool:
        """Whether the store has that change; also where nothing was noted, or the store has forgotten it since."""
        noted = self._remembered()
        if max(self._position(), noted.get("position", 0)) > self._store.position():
            return False
        return not noted or self._told(noted["position"]) in (noted, {"position": noted["position"]})

    def forget(self) -> None:
        """Remove what was made from another store; the index is made anew."""
        for name in _MADE_FROM:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def note(self, position: int) -> None:
        """The index holds all changes up to this one."""
        if position != self._noted:
            write_whole(self._file, json.dumps(self._told(position)))
            self._noted = position

    def _told(self, position: int) -> dict[str, Any]:
        """A change as the store has it; its position alone where that is forgotten."""
        try:
            change = next(iter(self._store.changes(position - 1, limit=1)), None)
        except ChangeLogTruncated:
            return {"position": position}
        return {} if change is None else {"position": position, "subscription": change.subscription, "at": change.at}

    def _remembered(self) -> dict[str, Any]:
        try:
            told = json.loads(self._file.read_text("utf-8"))
            return {**told, "position": int(told["position"])}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none yet, or damaged
            return {}

    def _position(self) -> int:
        """Of the newest index; 0 where there is none, or a damaged one, of which others tell."""
        with suppress(IndexDamaged):
            folder = self._folder / "index"
            if folder.is_dir() and (found := versions(folder)):
                return load_manifest(folder, found[-1]).position
        return 0
