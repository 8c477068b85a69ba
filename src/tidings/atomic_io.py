"""Atomic and durable file writes, and the disk usage of a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def disk_usage_bytes(folder: Path) -> int:
    """Return the total size of all files below a directory; files deleted during the walk are not counted."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_size
    return total


def write_atomically(file: Path, text: str) -> None:
    """Replace a file: readers see the old content or the new one, never a part. Not durable.

    The temporary file is deleted on failure: a truncated one would keep a full disk full.
    """
    temporary = file.with_name(f".{file.name}.partial")
    try:
        temporary.write_text(text, "utf-8")
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_durably(file: Path, lines: Iterable[str]) -> None:
    """Write a file that gets its name only after its content is on disk.

    The temporary file is deleted on failure: a truncated one would keep a full disk full.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as output:
            output.writelines(lines)
            output.flush()
            os.fsync(output.fileno())
        temporary.rename(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync(file.parent)


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
