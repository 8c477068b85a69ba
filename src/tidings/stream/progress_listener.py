"""What Spark tells of a running stream, made into figures and written beside its state after every batch."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tidings.atomic_io import folder_bytes
from tidings.index.reader import Index
from tidings.matching.load import MatcherLoad, together
from tidings.store import Store
from tidings.stream.backlog import waiting_messages
from tidings.stream.metrics.correlations import FOLDER as CORRELATIONS
from tidings.stream.metrics.snapshot import StreamFigures, save_figures

_DISK_EVERY_S = 10.0
_OWNERS = 20  # so many are told, those most was withheld from
_LATE = 50  # so many batches may have begun before Spark tells of one


class Newest:
    """The newest offsets of a source that has them, as Spark told last."""

    def __init__(self) -> None:
        self._told: str | None = None

    def heard(self, progress: StreamingQueryProgress) -> None:
        self._told = progress.sources[0].latestOffset if progress.sources else None

    def offsets(self) -> str | None:
        return self._told


@dataclass
class Watch:
    """The figures of one run. `index` and `spent_ms` tell what the batch that just ended used and took, `loads` what
    its matchers did."""

    folder: Path
    store: Store
    source: str
    plan: str
    index: Callable[[], Index]
    spent_ms: Callable[[], dict[str, float]]
    waiting_files: Callable[[], int | None] = lambda: None
    loads: Callable[[int], tuple[MatcherLoad, ...]] = lambda batch: ()
    told: Callable[[], dict[str, object]] = dict  # what else there is to tell
    newest: Newest | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _disk_at: float = 0.0

    def __post_init__(self) -> None:
        now = time.time()
        self.heard = -1  # the last batch that Spark told of
        self._counted: int | None = None  # the last batch whose matches are in the figures
        self.figures = StreamFigures(os.getpid(), socket.gethostname(), "", self.source, now, now, plan=self.plan)
        self.publish()

    def publish(self, **changes: object) -> None:
        """Take over some figures and write all of them."""
        with self._lock:
            self.figures = replace(self.figures, **changes, updated_at=time.time())  # type: ignore[arg-type]
            save_figures(self.folder, self.figures)

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """A batch has ended, or Spark looked for posts and found none."""
        index, seen = self.index(), self.figures
        if self.newest is not None:
            self.newest.heard(progress)
        changes: dict[str, object] = {
            "stream": str(progress.id),
            "index_version": index.version,
            "segments": sum(map(len, index.manifest.shards)),
            "subscriptions": index.manifest.subscriptions,
            "waiting_files": self.waiting_files(),
            **_waiting(progress),
            **self.told(),
        }
        if progress.numInputRows:
            self._counted = progress.batchId - 1 if self._counted is None else self._counted
            changes |= self._of_batch(progress, seen)
        if time.time() - self._disk_at > _DISK_EVERY_S:
            self._disk_at = time.time()
            changes["disk_bytes"] = disk_bytes(self.folder, self.store)
        self.publish(**changes)
        self.count_stored()
        self.heard = progress.batchId

    def count_stored(self) -> None:
        """Count what batches have stored since: a batch may be told of before it is stored."""
        if self._counted is None:
            return
        ledger = self.store.ledger(self.figures.stream, last=_LATE)
        new = [one for one in ledger if one.batch > self._counted and one.state == "done"]
        if new:
            self._counted = new[-1].batch
            matches, rejected = (sum(getattr(one, name) for one in new) for name in ("matches", "rejected"))
            self.publish(matches=self.figures.matches + matches, rejected=self.figures.rejected + rejected)

    def _of_batch(self, progress: StreamingQueryProgress, seen: StreamFigures) -> dict[str, object]:
        durations = {name: int(value) for name, value in progress.durationMs.items()}
        ours = {f"tidings {name}": round(value) for name, value in self.spent_ms().items()}
        loads = self.loads(progress.batchId)
        return {
            "batch": progress.batchId,
            "batches": seen.batches + 1,
            "posts": seen.posts + progress.numInputRows,
            "posts_per_second": _finite(progress.processedRowsPerSecond),
            "arriving_per_second": _finite(progress.inputRowsPerSecond),
            "batch_seconds": durations.get("triggerExecution", 0) / 1000,
            "durations_ms": {**durations, **ours},
            "batch_matchers": loads,
            "matchers": together(seen.matchers, loads),
            "withheld": seen.withheld + (spared := sum(load.withheld for load in loads)),
            "withheld_owners": self._owners() if spared or not seen.batches else seen.withheld_owners,
        }

    def _owners(self) -> dict[str, int]:
        return dict(self.store.withheld(_OWNERS).owners)


class Listener(StreamingQueryListener):
    """Hands Spark's events on; Spark calls it from a thread of its own."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._watch.progressed(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        self._watch.count_stored()
        self._watch.publish()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def disk_bytes(folder: Path, store: Store) -> dict[str, int]:
    """What the stream takes on disk, by what takes it."""
    return {
        "store": store.sizes().bytes,
        **{name: folder_bytes(folder / name) for name in ("index", "checkpoint")},
        **({CORRELATIONS: folder_bytes(folder / CORRELATIONS)} if (folder / CORRELATIONS).is_dir() else {}),
    }


def _waiting(progress: StreamingQueryProgress) -> dict[str, object]:
    """What has arrived and was not taken yet, as far as the source can tell."""
    source = progress.sources[0] if progress.sources else None
    offsets = (source.endOffset, source.latestOffset) if source is not None else ()
    if not all(isinstance(offset, str) and offset.startswith("{") for offset in offsets) or not offsets:
        return {}
    try:
        return {"waiting_posts": waiting_messages(offsets[1], offsets[0])}
    except (ValueError, AttributeError, TypeError):  # offsets of another kind
        return {}


def _finite(value: float | None) -> float:
    return float(value) if value is not None and value == value and abs(value) != float("inf") else 0.0
