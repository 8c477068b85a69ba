"""The directory in which posts wait for the stream: each file whole, durable, and there once.

`tidings run` reads it as any growing directory. Whoever has acknowledged posts has put them here before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def put(inbox: Path, name: str, posts: Iterable[Mapping[str, Any]]) -> Path:
    """Put posts there under a name, durably; the same name again changes nothing the stream would read twice.

    Spark's file source remembers the names it has read, so a sender that names a file after what is in it (the number
    of its outbox row, say) may put it again after a crash.
    """
    inbox.mkdir(parents=True, exist_ok=True)
    hidden, file = inbox / f".{name}.{os.getpid()}", inbox / f"{name}.jsonl"
    with hidden.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(post, ensure_ascii=False) + "\n" for post in posts)
        lines.flush()
        os.fsync(lines.fileno())
    hidden.rename(file)
    _sync(inbox)
    return file


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
