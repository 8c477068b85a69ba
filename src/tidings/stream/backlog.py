"""The backlog: input that no batch has read yet. Spark does not report how many files are pending."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidings.ingest.post_files import FORMAT_OF_SUFFIX
from tidings.stream.source_log import read_log_file

_LAST_BATCH_WEIGHT = 0.3  # in the moving average of bytes per post


class PendingFiles:
    """The files of a directory that are not in Spark's log yet."""

    def __init__(self, folder: Path, format: str, log: Path) -> None:
        self._folder = Path(os.path.abspath(folder))
        self._suffixes = {suffix for suffix, name in FORMAT_OF_SUFFIX.items() if name == format}
        self._log = log
        self._read_logs: set[str] = set()
        self._assigned: set[str] = set()  # files that are in the log
        self._lock = threading.Lock()

    def count(self) -> int:
        """Return the number of pending files."""
        return len(self._list_pending())

    def bytes(self) -> int:
        """Return the size of all pending files."""
        total = 0
        for path in self._list_pending():
            with suppress(OSError):  # deleted in the meantime
                total += os.stat(path).st_size
        return total

    def draw(self, size_bytes: float, seed: int = 0) -> list[Path]:
        """Return pending files, drawn at random, that together hold at least `size_bytes`; all if they hold less."""
        files = sorted(map(Path, self._list_pending()))
        chosen: list[Path] = []
        for row in np.random.default_rng(seed).permutation(len(files)).tolist():
            if size_bytes <= 0:
                break
            size_bytes -= files[row].stat().st_size
            chosen.append(files[row])
        return chosen

    def _list_pending(self) -> set[str]:
        with self._lock:
            self._read_new_logs()
            existing = {path for path in _walk_files(self._folder) if self._suffixes & set(Path(path).suffixes)}
            self._assigned &= existing  # forget deleted files
            return existing - self._assigned

    def _read_new_logs(self) -> None:
        try:
            names = {name for name in os.listdir(self._log) if name[0].isdigit()}
        except OSError:  # the stream has not started
            return
        for name in names - self._read_logs:
            with suppress(OSError, ValueError, KeyError, TypeError):  # Spark is replacing it by a compact log
                self._assigned.update(path for _, path in read_log_file(self._log / name))
        self._read_logs = names


class LatestOffsets:
    """The latest offsets of the source that Spark reported; only sources such as Kafka have them."""

    def __init__(self) -> None:
        self._offsets: str | None = None

    def update(self, progress: StreamingQueryProgress) -> None:
        self._offsets = progress.sources[0].latestOffset if progress.sources else None

    def get(self) -> str | None:
        return self._offsets


class Backlog(Protocol):
    """Estimates how many posts wait when a batch begins; load shedding decides by this number."""

    def posts(self, batch: int, files: Sequence[Path]) -> float | None:
        """Return the posts of the batch and those after it; None if unknown. `files` are the files of the batch."""
        ...

    def observe_batch(self, batch: int, posts: int) -> None:
        """Learn from a finished batch."""
        ...


class FileBacklog:
    """Estimates posts from file sizes and the measured bytes per post."""

    def __init__(self, pending: PendingFiles, bytes_per_post: float) -> None:
        self._pending, self._bytes_per_post = pending, bytes_per_post
        self._last_batch = (-1, 0)  # number and bytes: its files may be deleted when it is done

    def posts(self, batch: int, files: Sequence[Path]) -> float | None:
        batch_bytes = 0
        for file in files:
            with suppress(OSError):  # missing: reported if the batch is not committed yet
                batch_bytes += file.stat().st_size
        self._last_batch = (batch, batch_bytes)
        return (batch_bytes + self._pending.bytes()) / self._bytes_per_post

    def observe_batch(self, batch: int, posts: int) -> None:
        number, batch_bytes = self._last_batch
        if posts and number == batch and batch_bytes:
            self._bytes_per_post += _LAST_BATCH_WEIGHT * (batch_bytes / posts - self._bytes_per_post)


class KafkaBacklog:
    """Counts messages by offsets: the checkpoint has those of a batch, Spark's progress reports the latest ones."""

    def __init__(self, checkpoint: Path, latest_offsets: Callable[[], str | None]) -> None:
        self._checkpoint, self._latest_offsets = checkpoint, latest_offsets

    def posts(self, batch: int, files: Sequence[Path] = ()) -> float | None:
        end = self._end_of(batch)
        start = self._end_of(batch - 1) if batch else _last_line(self._checkpoint / "sources" / "0" / "0")
        if end is None or start is None:
            return None
        return max(0, count_messages(end) - count_messages(start)) + pending_messages(self._latest_offsets(), end)

    def observe_batch(self, batch: int, posts: int) -> None:
        pass  # offsets are exact

    def _end_of(self, batch: int) -> str | None:
        return _last_line(self._checkpoint / "offsets" / str(batch))


def count_messages(offsets: str) -> int:
    """Return the number of messages before these offsets, over all partitions."""
    return sum(offset for partitions in json.loads(offsets).values() for offset in partitions.values())


def pending_messages(latest: str | None, end: str) -> int:
    """Return the number of messages between `end` and the latest offsets; 0 if these are unknown or older."""
    return max(0, count_messages(latest) - count_messages(end)) if latest else 0


def _walk_files(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (f"{parent}/{name}" for name in names if name[0] not in "._")


def _last_line(path: Path) -> str | None:
    return path.read_text("utf-8").splitlines()[-1] if path.is_file() else None
