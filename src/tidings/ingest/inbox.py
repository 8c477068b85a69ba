"""The inbox: a directory of posts that `tidings run` reads like any growing directory.

Every file is complete and durable before it appears, so a sender may acknowledge posts once they are here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_durably


def write_posts(inbox: Path, name: str, posts: Iterable[Mapping[str, Any]]) -> Path:
    """Write posts durably under a name; return the file.

    Spark's file source does not read a name twice. So a sender that derives the name from the content (the number of an
    outbox row, for example) may write it again after a crash.
    """
    return write_lines(inbox, name, (json.dumps(post, ensure_ascii=False) + "\n" for post in posts))


def write_lines(inbox: Path, name: str, lines: Iterable[str]) -> Path:
    """Write posts that are JSON lines already, like `write_posts`."""
    inbox.mkdir(parents=True, exist_ok=True)
    file = inbox / f"{name}.jsonl"
    write_durably(file, lines)
    return file
