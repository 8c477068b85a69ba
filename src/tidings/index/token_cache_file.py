"""What receivers of an index have met so far, kept beside it, so that a new worker starts where others are.

It is only a cache: anything that is not whole is passed over, and nothing is lost with it but time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tidings.errors import IndexDamaged
from tidings.index.files import FileRecord, check_file, load_array, load_json, save_arrays, save_json
from tidings.text.token_cache import Remembered

_FOLDER = "met"
_NAMES = ("slots", "arena", "text", "sizes")
_LEAST = 10_000  # fewer tokens are met again sooner than read
_GROWTH = 1.5  # how much more there must be before it is written again


class Warmth:
    """The memory of the receivers of one index in this process, whatever the version."""

    def __init__(self, index_folder: Path) -> None:
        self._folder = index_folder / _FOLDER
        self.remembered = Remembered()
        self._saved = 0
        for snapshot in sorted(self._folder.glob("[0-9]*"), reverse=True):
            if self._recalled(snapshot):
                break

    def save(self) -> None:
        """Keep the memory if it has grown much; a folder that cannot be written (or is full) is no error."""
        if len(self.remembered) < max(_LEAST, _GROWTH * self._saved):
            return
        self._saved = len(self.remembered)
        try:
            self._folder.mkdir(exist_ok=True)
            older = [found for found in self._folder.glob("[0-9]*") if int(found.name.split("-")[0]) < self._saved]
            self._write(self._folder / f"{self._saved:010d}-{os.getpid()}")
            for snapshot in older:
                shutil.rmtree(snapshot, ignore_errors=True)
        except OSError:
            return

    def _write(self, snapshot: Path) -> None:
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=self._folder))
        try:
            save_arrays(partial / "arrays", self.remembered.arrays(), durably=False)
            records = {name: FileRecord.of(partial / "arrays" / f"{name}.npy") for name in _NAMES}
            save_json(partial / "files.json", {name: [r.size_bytes, r.checksum] for name, r in records.items()})
            partial.rename(snapshot)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _recalled(self, snapshot: Path) -> bool:
        try:
            for name, record in load_json(snapshot / "files.json").items():
                check_file(snapshot / "arrays" / f"{name}.npy", FileRecord(*record), thoroughly=True)
            self.remembered.recall({name: load_array(snapshot / "arrays" / f"{name}.npy") for name in _NAMES})
        except (OSError, IndexDamaged, TypeError):
            return False
        self._saved = len(self.remembered)
        return True
