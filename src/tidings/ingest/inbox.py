"""The directory in which posts wait for the stream: each file whole, durable, and there once.

`tidings run` reads it as any growing directory. Whoever has acknowledged posts has put them here before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_durably


def put(inbox: Path, name: str, posts: Iterable[Mapping[str, Any]]) -> Path:
    """Put posts there under a name, durably; the same name again changes nothing the stream would read twice.

    Spark's file source remembers the names it has read, so a sender that names a file after what is in it (the number
    of its outbox row, say) may put it again after a crash.
    """
    return put_lines(inbox, name, (json.dumps(post, ensure_ascii=False) + "\n" for post in posts))


def put_lines(inbox: Path, name: str, lines: Iterable[str]) -> Path:
    """As `put`, of posts that are written already."""
    inbox.mkdir(parents=True, exist_ok=True)
    file = inbox / f"{name}.jsonl"
    write_durably(file, lines)
    return file
