"""How many files of a directory wait to be taken. Spark knows, but does not tell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tidings.receive.post_files import FORMATS
from tidings.spark.taken import noted


class WaitingFiles:
    """Counts the files that Spark's log of a source does not yet have; remembers those it has, as Spark does."""

    def __init__(self, folder: Path, format: str, log: Path) -> None:
        self._folder = Path(os.path.abspath(folder))
        self._suffixes = {suffix for suffix, name in FORMATS.items() if name == format}
        self._log = log
        self._read: set[str] = set()  # files of the log
        self._taken: set[str] = set()

    def count(self) -> int:
        """Those that are there now and in no batch that has begun."""
        self._follow()
        there = {path for path in _files(self._folder) if self._suffixes & set(Path(path).suffixes)}
        self._taken &= there  # the others were deleted
        return len(there - self._taken)

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
