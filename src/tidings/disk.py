"""What takes disk, counted while others write and delete."""

from __future__ import annotations

import os
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
