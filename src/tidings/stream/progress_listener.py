"""Turn Spark's progress reports into the metrics of a stream; write them next to its state after every batch."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tidings.atomic_io import disk_usage_bytes
from tidings.matching.load import sum_loads
from tidings.store import Store
from tidings.stream.backlog import pending_messages
from tidings.stream.metrics.correlations import FOLDER as CORRELATIONS
from tidings.stream.metrics.snapshot import StreamSnapshot, save_snapshot
from tidings.stream.micro_batch import MicroBatchRunner
from tidings.stream.options import StreamOptions
from tidings.stream.sources import StreamSource

_DISK_USAGE_INTERVAL_S = 10.0
_MAX_OWNERS = 20  # those with the most shed work
_MAX_UNREPORTED_BATCHES = 50  # that begin before Spark reports the progress of one


class StreamMetrics:
    """The metrics of one run."""

    def __init__(self, options: StreamOptions, source: StreamSource, runner: MicroBatchRunner) -> None:
        self._work_dir, self._source, self._runner = options.work_dir, source, runner
        self._store = runner.commits.store
        self._lock = threading.Lock()
        self._disk_usage_at = 0.0
        self._counted_batch: int | None = None  # the last batch whose matches are in the totals
        self.reported_batch = -1  # the last batch whose progress Spark reported
        now = time.time()
        self.snapshot = StreamSnapshot(os.getpid(), socket.gethostname(), "", options.posts, now, now)
        self.publish(**runner.status())

    def publish(self, **changes: object) -> None:
        """Change some metrics and write all of them. A full disk must not end a stream: the old ones stay then."""
        with self._lock, suppress(OSError):
            self.snapshot = replace(self.snapshot, **changes, updated_at=time.time())  # type: ignore[arg-type]
            save_snapshot(self._work_dir, self.snapshot)

    def on_progress(self, progress: StreamingQueryProgress) -> None:
        """Update the metrics after a batch, or after a trigger that found no posts."""
        index, before = self._runner.index.current, self.snapshot
        self._source.latest_offsets.update(progress)
        changes: dict[str, object] = {
            "stream": str(progress.id),
            "index_version": index.version,
            "segments": sum(map(len, index.manifest.shards)),
            "subscriptions": index.manifest.subscriptions,
            "pending_files": self._source.pending_files(),
            **_pending_posts(progress),
            **self._runner.status(),
        }
        if progress.numInputRows:
            self._counted_batch = progress.batchId - 1 if self._counted_batch is None else self._counted_batch
            changes |= self._batch_metrics(progress, before)
        if time.time() - self._disk_usage_at > _DISK_USAGE_INTERVAL_S:
            self._disk_usage_at = time.time()
            changes["disk_bytes"] = disk_bytes(self._work_dir, self._store)
        self.publish(**changes)
        self.refresh_totals()
        self.reported_batch = progress.batchId

    def on_idle(self) -> None:
        """Update the metrics while no posts arrive."""
        self.refresh_totals()
        self.publish(pending_files=self._source.pending_files())

    def describe_batch(self) -> str:
        """Return which batch runs, or between which ones the stream is."""
        batch = self._runner.batch
        if batch is None:
            return "before the first batch"
        return f"during batch {batch}" if self._runner.running.locked() else f"after batch {batch}"

    def refresh_totals(self) -> None:
        """Add the matches of batches committed since the last call: Spark may report a batch before its commit."""
        if self._counted_batch is None:
            return
        ledger = self._store.batches.recent(self.snapshot.stream, limit=_MAX_UNREPORTED_BATCHES)
        new = [batch for batch in ledger if batch.batch > self._counted_batch and batch.state == "done"]
        if new:
            self._counted_batch = new[-1].batch
            matches, rejected = sum(batch.matches for batch in new), sum(batch.rejected for batch in new)
            self.publish(matches=self.snapshot.matches + matches, rejected=self.snapshot.rejected + rejected)

    def _batch_metrics(self, progress: StreamingQueryProgress, before: StreamSnapshot) -> dict[str, object]:
        spark_ms = {name: int(value) for name, value in progress.durationMs.items()}
        tidings_ms = {f"tidings {name}": round(value) for name, value in self._runner.durations_ms.items()}
        loads = self._runner.matcher_metrics.loads_of(progress.batchId)
        shed_posts = sum(load.shed for load in loads)
        return {
            "batch": progress.batchId,
            "batches": before.batches + 1,
            "posts": before.posts + progress.numInputRows,
            "posts_per_second": _finite(progress.processedRowsPerSecond),
            "arriving_per_second": _finite(progress.inputRowsPerSecond),
            "batch_seconds": spark_ms.get("triggerExecution", 0) / 1000,
            "durations_ms": {**spark_ms, **tidings_ms},
            "batch_matchers": loads,
            "matchers": sum_loads(before.matchers, loads),
            "shed_posts": before.shed_posts + shed_posts,
            "shed_by_owner": self._shed_by_owner() if shed_posts or not before.batches else before.shed_by_owner,
        }

    def _shed_by_owner(self) -> dict[str, int]:
        return dict(self._store.shed_totals.read(_MAX_OWNERS).owners)


class ProgressListener(StreamingQueryListener):
    """Passes Spark's events on. Spark calls it in a thread of its own."""

    def __init__(self, metrics: StreamMetrics) -> None:
        self._metrics = metrics

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._metrics.on_progress(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        self._metrics.on_idle()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def disk_bytes(work_dir: Path, store: Store) -> dict[str, int]:
    """Return the disk usage of the stream by part."""
    folders = ("index", "checkpoint", *((CORRELATIONS,) if (work_dir / CORRELATIONS).is_dir() else ()))
    return {"store": store.sizes().bytes, **{name: disk_usage_bytes(work_dir / name) for name in folders}}


def _pending_posts(progress: StreamingQueryProgress) -> dict[str, object]:
    """Return the posts that no batch has read yet, if the source has offsets."""
    source = progress.sources[0] if progress.sources else None
    offsets = (source.endOffset, source.latestOffset) if source is not None else ()
    if not all(isinstance(offset, str) and offset.startswith("{") for offset in offsets) or not offsets:
        return {}
    try:
        return {"pending_posts": pending_messages(offsets[1], offsets[0])}
    except (ValueError, AttributeError, TypeError):  # offsets of another kind of source
        return {}


def _finite(value: float | None) -> float:
    return float(value) if value is not None and value == value and abs(value) != float("inf") else 0.0
