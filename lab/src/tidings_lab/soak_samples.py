"""Samples of a running stream, taken from outside: memory, CPU, segments, batches, latency, disk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidings.atomic_io import disk_usage_bytes
from tidings.errors import IndexDamaged
from tidings.index.manifest import load_manifest
from tidings.store import Store
from tidings.stream.metrics.snapshot import StreamSnapshot, load_snapshot
from tidings_lab.process_memory import measure_processes

_MAX_BATCHES = 200  # that may end between two samples
_PAGE = 10_000


@dataclass
class StreamObserver:
    """Observes the stream in `state`. `marker` is a subscription whose posts have the time when they were written."""

    state: Path
    store: Store
    pid: int  # of the service
    marker: int
    folders: Mapping[str, Path]  # folders whose sizes are sampled besides the store
    samples: list[dict[str, Any]] = field(default_factory=list)
    marked: int = 0  # marked posts found
    drivers: set[int] = field(default_factory=set)  # process ids of the streams; several if it was restarted
    _cursor: int = 0
    _batch_s: list[float] = field(default_factory=list)
    _last_batch: int = -1
    _started: float = field(default_factory=time.monotonic)

    def reset(self) -> None:
        """Start counting now: exclude the start of the stream."""
        self.observe_batch()
        self.read_marked()
        self._batch_s = []
        self._started = time.monotonic()

    def observe_batch(self) -> StreamSnapshot | None:
        """Record the duration of the last batch. Called more often than batches end, so that none is missed."""
        snapshot = load_snapshot(self.state)
        if snapshot is not None:
            self.drivers.add(snapshot.pid)
        if snapshot is not None and snapshot.batch > self._last_batch:
            self._last_batch = snapshot.batch
            self._batch_s.append(snapshot.batch_seconds)
        return snapshot

    def sample(self, posts_written: int) -> dict[str, Any]:
        """Take a sample after `posts_written` posts and append it to `samples`."""
        snapshot, waited = self.observe_batch(), self.read_marked()
        batch_s, self._batch_s = self._batch_s, []
        sizes = self.store.sizes()
        disk = {"store": sizes.bytes, **{name: disk_usage_bytes(folder) for name, folder in self.folders.items()}}
        sample = {
            "at_s": round(time.monotonic() - self._started, 1),
            **measure_processes(self.pid),
            **_snapshot_values(snapshot, posts_written),
            **_count_segments(self.state / "index", snapshot),
            **_summarize_ms("batch_ms", batch_s),
            **_summarize_ms("latency_ms", waited),
            "stored_matches": sizes.matches,
            "disk_mb": {name: round(size / 1e6, 2) for name, size in disk.items()},
        }
        self.samples.append(sample)
        return sample

    def read_marked(self) -> list[float]:
        """Return the latency in seconds of the marked posts that were stored since the last sample."""
        stored_at = {
            row.batch: row.finished_at for row in self.store.batches.recent(limit=_MAX_BATCHES) if row.finished_at
        }
        waited: list[float] = []
        while page := self.store.matches.since(self.marker, cursor=self._cursor, limit=_PAGE):
            self._cursor = page[-1].cursor
            self.marked += len(page)
            waited += [
                stored_at[match.batch] - float(match.time or "nan") for match in page if match.batch in stored_at
            ]
        return waited


def _snapshot_values(snapshot: StreamSnapshot | None, posts_written: int) -> dict[str, Any]:
    if snapshot is None:
        snapshot = StreamSnapshot(0, "", "", "", 0, 0)
    return {
        "posts": snapshot.posts,
        "matches": snapshot.matches,
        "backlog_posts": posts_written - snapshot.posts,
        "pending_files": snapshot.pending_files,
        "batches": snapshot.batches,
        "index_version": snapshot.index_version,
    }


def _count_segments(index: Path, snapshot: StreamSnapshot | None) -> dict[str, Any]:
    """Return the segments of all shards and of the largest one, and the subscriptions of the index."""
    with suppress(OSError, IndexDamaged):
        if snapshot is not None and snapshot.index_version:
            manifest = load_manifest(index, snapshot.index_version)
            counts = [len(shard) for shard in manifest.shards]
            indexed = manifest.subscriptions
            return {"segments": sum(counts), "segments_of_shard": max(counts), "subscriptions": indexed}
    return {"segments": None, "segments_of_shard": None, "subscriptions": None}


def _summarize_ms(name: str, seconds: Iterable[float]) -> dict[str, Any]:
    """Return median and maximum in milliseconds; None without values."""
    known = [round(value * 1000) for value in seconds]
    median = round(statistics.median(known)) if known else None
    return {name: median, f"{name}_max": max(known, default=None)}
