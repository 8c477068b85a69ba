"""Looking at a running stream from outside, every few seconds: memory, processor, segments, batches, lag, disk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidings.atomic_io import folder_bytes
from tidings.errors import IndexDamaged
from tidings.index.manifest import load_manifest
from tidings.store import Store
from tidings.stream.metrics.snapshot import StreamFigures, load_figures

_LATE = 200  # batches that may have ended between two looks
_PAGE = 10_000


@dataclass
class Observer:
    """What there is to see of the stream in `state`. `marker` is a subscription whose posts tell when they were put."""

    state: Path
    store: Store
    pid: int
    marker: int
    places: Mapping[str, Path]  # folders whose sizes are told beside that of the store
    samples: list[dict[str, Any]] = field(default_factory=list)
    marked: int = 0  # posts the marker has found
    _cursor: int = 0
    _batch_s: list[float] = field(default_factory=list)
    _last_batch: int = -1
    _started: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Count from now on: what was before belongs to the start."""
        self.glance()
        self.read_marked()
        self._batch_s = []
        self._started = time.monotonic()

    @property
    def figures(self) -> StreamFigures | None:
        told = load_figures(self.state)
        return told if told is not None and told.pid == self.pid else None

    def glance(self) -> StreamFigures | None:
        """Note how long the last batch took; called more often than batches end, so that none is missed."""
        told = self.figures
        if told is not None and told.batch > self._last_batch:
            self._last_batch = told.batch
            self._batch_s.append(told.batch_seconds)
        return told

    def sample(self, put_posts: int) -> dict[str, Any]:
        """All there is to see at this moment, `put_posts` having been put there; it is also added to `samples`."""
        figures, waited = self.glance(), self.read_marked()
        batch_s, self._batch_s = self._batch_s, []
        sizes = self.store.sizes()
        disk = {"store": sizes.bytes, **{name: folder_bytes(place) for name, place in self.places.items()}}
        seen = {
            "at_s": round(time.monotonic() - self._started, 1),
            **processes(self.pid),
            **_of_figures(figures, put_posts),
            **_segments(self.state / "index", figures),
            **_spread("batch_ms", batch_s),
            **_spread("latency_ms", waited),
            "stored_matches": sizes.matches,
            "disk_mb": {name: _megabytes(size) for name, size in disk.items()},
        }
        self.samples.append(seen)
        return seen

    def read_marked(self) -> list[float]:
        """Seconds from being put there to being stored, of the marked posts that were stored since the last look."""
        stored_at = {one.batch: one.finished_at for one in self.store.ledger(last=_LATE) if one.finished_at}
        waited: list[float] = []
        while page := self.store.matches(self.marker, since=self._cursor, limit=_PAGE):
            self._cursor = page[-1].cursor
            self.marked += len(page)
            waited += [stored_at[one.batch] - float(one.time or "nan") for one in page if one.batch in stored_at]
        return waited


def processes(pid: int) -> dict[str, Any]:
    """Resident memory of the driver, of its JVM and of the Python workers, and the processor time of all of them.

    `…_private_mb` leaves out what is shared or mapped from files, as the index is.
    """
    import psutil

    sizes = (f"{role}{kind}_mb" for kind in ("", "_private") for role in ("driver", "jvm", "workers"))
    found: dict[str, float] = {**dict.fromkeys(sizes, 0.0), "workers": 0, "cpu_s": 0.0}
    with suppress(psutil.NoSuchProcess):
        driver = psutil.Process(pid)
        for process in (driver, *driver.children(recursive=True)):
            with suppress(psutil.Error):
                role, memory = _role(process, pid), process.memory_info()
                if role is None:
                    continue
                found["cpu_s"] += sum(process.cpu_times()[:4])  # also of its children that have ended
                found[f"{role}_mb"] += _megabytes(memory.rss)
                found[f"{role}_private_mb"] += _megabytes(memory.rss - memory.shared)
                found["workers"] += role == "workers"
    return {name: round(value, 1) for name, value in found.items()}


def _role(process: Any, driver: int) -> str | None:
    """What the JVM starts for a moment (it then has the JVM's memory too) has no role."""
    if process.pid == driver:
        return "driver"
    if process.ppid() == driver:
        return "jvm"
    return "workers" if process.name().startswith("python") else None


def _of_figures(figures: StreamFigures | None, put_posts: int) -> dict[str, Any]:
    if figures is None:
        figures = StreamFigures(0, "", "", "", 0, 0)
    return {
        "posts": figures.posts,
        "matches": figures.matches,
        "behind_posts": put_posts - figures.posts,
        "waiting_files": figures.waiting_files,
        "batches": figures.batches,
        "index_version": figures.index_version,
    }


def _segments(index: Path, figures: StreamFigures | None) -> dict[str, Any]:
    """Of all shards and of the one that has most, and how many subscriptions the index holds."""
    with suppress(OSError, IndexDamaged):
        if figures is not None and figures.index_version:
            manifest = load_manifest(index, figures.index_version)
            counts = [len(shard) for shard in manifest.shards]
            indexed = manifest.subscriptions
            return {"segments": sum(counts), "segments_of_shard": max(counts), "subscriptions": indexed}
    return {"segments": None, "segments_of_shard": None, "subscriptions": None}


def _spread(name: str, seconds: Iterable[float]) -> dict[str, Any]:
    """The median and the largest, in milliseconds; None of nothing."""
    known = [round(value * 1000) for value in seconds]
    median = round(statistics.median(known)) if known else None
    return {name: median, f"{name}_most": max(known, default=None)}


def _megabytes(size: float) -> float:
    return round(size / 1e6, 2)
