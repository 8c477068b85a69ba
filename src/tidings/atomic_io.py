"""Files: put in place whole and durable; and what takes disk, counted while others write and delete."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """What all files below a folder take; files and folders that go away meanwhile are not counted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def write_whole(file: Path, text: str) -> None:
    """A reader sees all of the text, or what was there before."""
    hidden = file.with_name(f".{file.name}.partial")
    hidden.write_text(text, "utf-8")
    os.replace(hidden, file)


def write_durably(file: Path, lines: Iterable[str]) -> None:
    """A file gets its name when all of it is on the disk; whoever is killed before leaves none of that name.

    What a full disk has cut short is deleted: it would keep the disk full.
    """
    hidden = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with hidden.open("w", encoding="utf-8") as written:
            written.writelines(lines)
            written.flush()
            os.fsync(written.fileno())
        hidden.rename(file)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    sync(file.parent)


def sync(path: Path) -> None:
    """Have what a file holds, or which files a folder has, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
