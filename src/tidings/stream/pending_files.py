"""How many files of a directory wait to be taken. Spark knows, but does not tell."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tidings.ingest.post_files import FORMATS
from tidings.stream.source_log import noted


class WaitingFiles:
    """The files that Spark's log of a source does not yet have; remembers those it has, as Spark does."""

    def __init__(self, folder: Path, format: str, log: Path) -> None:
        self._folder = Path(os.path.abspath(folder))
        self._suffixes = {suffix for suffix, name in FORMATS.items() if name == format}
        self._log = log
        self._read: set[str] = set()  # files of the log
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def count(self) -> int:
        """Those that are there now and in no batch that has begun."""
        return len(self._files())

    def bytes(self) -> int:
        """What they hold together."""
        total = 0
        for path in self._files():
            with suppress(OSError):  # deleted meanwhile
                total += os.stat(path).st_size
        return total

    def newest(self, size_bytes: float) -> list[Path]:
        """The newest of them, as many as hold so much together."""
        chosen: list[Path] = []
        for file in sorted(map(Path, self._files()), key=lambda file: -file.stat().st_mtime):
            if size_bytes <= 0:
                break
            size_bytes -= file.stat().st_size
            chosen.append(file)
        return chosen

    def _files(self) -> set[str]:
        with self._lock:
            self._follow()
            there = {path for path in _files(self._folder) if self._suffixes & set(Path(path).suffixes)}
            self._taken &= there  # the others were deleted
            return there - self._taken

    def _follow(self) -> None:
        try:
            names = {name for name in os.listdir(self._log) if name[0].isdigit()}
        except OSError:  # not yet made
            return
        for name in names - self._read:
            with suppress(OSError, ValueError, KeyError, TypeError):  # being replaced by a compact one
                self._taken.update(path for _, path in noted(self._log / name))
        self._read = names


def _files(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (f"{place}/{name}" for name in names if name[0] not in "._")
