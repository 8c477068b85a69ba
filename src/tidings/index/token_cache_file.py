"""Store the token cache next to the index, so that new workers start with a warm cache.

It is only a cache: incomplete snapshots are ignored, and nothing but time is lost without it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tidings.errors import IndexDamaged
from tidings.index.files import FileRecord, check_file, load_array, load_json, save_arrays, save_json
from tidings.text.token_cache import TokenCache

_FOLDER = "token-cache"
_NAMES = ("slots", "arena", "text", "sizes")
_MIN_TOKENS = 10_000  # fewer tokens are derived again faster than they are read
_GROWTH = 1.5  # the factor by which the cache must grow before it is written again


class TokenCacheFile:
    """The token cache of an index in this process, for all versions."""

    def __init__(self, index_folder: Path) -> None:
        self._folder = index_folder / _FOLDER
        self.cache = TokenCache()
        self._saved_tokens = 0
        for snapshot in sorted(self._folder.glob("[0-9]*"), reverse=True):
            if self._load(snapshot):
                break

    def save(self) -> None:
        """Write a snapshot if the cache has grown enough. Errors (read-only folder, full disk) are ignored."""
        if len(self.cache) < max(_MIN_TOKENS, _GROWTH * self._saved_tokens):
            return
        self._saved_tokens = len(self.cache)
        try:
            self._folder.mkdir(exist_ok=True)
            snapshots = self._folder.glob("[0-9]*")
            older = [path for path in snapshots if int(path.name.split("-")[0]) < self._saved_tokens]
            self._write(self._folder / f"{self._saved_tokens:010d}-{os.getpid()}")
            for snapshot in older:
                shutil.rmtree(snapshot, ignore_errors=True)
        except OSError:
            return

    def _write(self, snapshot: Path) -> None:
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=self._folder))
        try:
            save_arrays(partial / "arrays", self.cache.to_arrays(), durably=False)
            records = {name: FileRecord.of(partial / "arrays" / f"{name}.npy") for name in _NAMES}
            save_json(partial / "files.json", {name: [r.size_bytes, r.checksum] for name, r in records.items()})
            partial.rename(snapshot)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _load(self, snapshot: Path) -> bool:
        try:
            for name, record in load_json(snapshot / "files.json").items():
                check_file(snapshot / "arrays" / f"{name}.npy", FileRecord(*record), thoroughly=True)
            self.cache.load({name: load_array(snapshot / "arrays" / f"{name}.npy") for name in _NAMES})
        except (OSError, IndexDamaged, TypeError):
            return False
        self._saved_tokens = len(self.cache)
        return True
