"""How many posts have arrived and are not yet worked off when a batch begins: the buffer that shedding looks at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tidings.stream.pending_files import WaitingFiles
from tidings.stream.source_log import taken_files

_NEWEST = 0.3  # what the last batch counts when the bytes of a post are measured


class Unread(Protocol):
    """The posts of a batch, and those that wait behind it."""

    def posts(self, batch: int) -> float | None:
        """So many, about; None where nobody can tell."""
        ...

    def taken(self, batch: int, posts: int) -> None:
        """The batch had so many."""
        ...


class UnreadFiles:
    """Files tell their size; how many bytes a post takes is measured batch by batch."""

    def __init__(self, checkpoint: Path, waiting: WaitingFiles, bytes_a_post: float) -> None:
        self._checkpoint, self._waiting, self._bytes_a_post = checkpoint, waiting, bytes_a_post
        self._own = (-1, 0)  # a batch, and the bytes of its files, which may be gone when it is done

    def posts(self, batch: int) -> float | None:
        own = sum(file.stat().st_size for file in taken_files(self._checkpoint, batch))
        self._own = (batch, own)
        return (own + self._waiting.bytes()) / self._bytes_a_post

    def taken(self, batch: int, posts: int) -> None:
        if posts and self._own[0] == batch and self._own[1]:
            self._bytes_a_post += _NEWEST * (self._own[1] / posts - self._bytes_a_post)


class UnreadMessages:
    """Kafka tells offsets: those a batch takes are in the checkpoint, the newest ones come with Spark's reports."""

    def __init__(self, checkpoint: Path, newest: Callable[[], str | None]) -> None:
        self._checkpoint, self._newest = checkpoint, newest

    def posts(self, batch: int) -> float | None:
        end = self._end(batch)
        start = self._end(batch - 1) if batch else _last_line(self._checkpoint / "sources" / "0" / "0")
        if end is None or start is None:
            return None
        return max(0, messages(end) - messages(start)) + waiting_messages(self._newest(), end)

    def taken(self, batch: int, posts: int) -> None:
        pass  # its offsets told

    def _end(self, batch: int) -> str | None:
        return _last_line(self._checkpoint / "offsets" / str(batch))


def messages(offsets: str) -> int:
    """All messages before these offsets."""
    return sum(offset for partitions in json.loads(offsets).values() for offset in partitions.values())


def waiting_messages(newest: str | None, end: str) -> int:
    """The messages from an end on to the newest; 0 where these are older than the end."""
    return max(0, messages(newest) - messages(end)) if newest else 0


def _last_line(path: Path) -> str | None:
    return path.read_text("utf-8").splitlines()[-1] if path.is_file() else None
