"""Match every micro-batch with the current subscriptions and commit its results exactly once.

Before a batch runs, the ledger of the store records its index version and what it sheds; a batch replayed after a crash
uses and sheds the same. One transaction commits its results and marks the batch as done; a batch that is done is
skipped. A large batch is committed while the next one is matched (`commit_queue`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidings.errors import IndexDamaged, InputError
from tidings.failpoints import failpoint
from tidings.index.reader import Index
from tidings.log import Event
from tidings.matching.registry import DEFAULT_MATCHER
from tidings.routing.shed_accounting import ShedAccounting
from tidings.routing.stats import RoutingStats
from tidings.spark.accumulators import MatcherMetrics, RoutingMetrics, RoutingOptions
from tidings.spark.index_shipping import shared_path_ref
from tidings.spark.pipeline import matched_posts
from tidings.spark.post_columns import select_all_fields
from tidings.store import BatchPin
from tidings.stream.checkpoint import stream_id
from tidings.stream.commit_queue import BatchStart, BatchStats, CommitQueue, MatchChunks, collect_matches
from tidings.stream.file_source import estimate_input_bytes
from tidings.stream.live_index import LiveIndex
from tidings.stream.load_shedding import LoadShedder, parse_shed_record
from tidings.stream.rejected_origin import LocateRejected
from tidings.stream.sinks import MatchSink, StoreSink
from tidings.stream.source_log import check_files_exist, files_of_batch

LOG = logging.getLogger("tidings.stream")
SPILL_BYTES = 4 << 20  # of input: results of smaller batches are collected faster in memory than through files
SPARK_SPILL_BYTES = 128 << 20  # of input: above this, even rejected rows may not fit into the driver's memory


class StreamStopping(Exception):
    """Raised for a batch that Spark starts while the stream is stopping; nothing was done for it."""


@dataclass
class MicroBatchRunner:
    """The function that Spark calls for every micro-batch, one at a time. `stopping` prevents new batches."""

    checkpoint: Path
    index: LiveIndex
    commits: CommitQueue
    sink: MatchSink = field(default_factory=StoreSink)
    shedder: LoadShedder = field(default_factory=LoadShedder)
    check_files: Callable[[Sequence[Path]], None] = lambda files: None  # raises InputError
    locate_rejected: LocateRejected | None = None
    repin_lost_versions: bool = False
    matcher: str = DEFAULT_MATCHER
    stopping: threading.Event = field(default_factory=threading.Event, init=False)
    running: threading.Lock = field(default_factory=threading.Lock, init=False)
    durations_ms: dict[str, float] = field(default_factory=dict, init=False)  # of the last batch
    batch: int | None = field(default=None, init=False)  # the last one that began
    error: Exception | None = field(default=None, init=False)  # of a batch: Spark only passes on its text

    def __post_init__(self) -> None:
        self.matcher_metrics = MatcherMetrics()
        self._routing_metrics = RoutingMetrics()
        self._shed_accounting = ShedAccounting(self.commits.store.subscriptions.owners)

    def __call__(self, posts: DataFrame, batch: int) -> None:
        with self.running:
            if self.stopping.is_set():
                raise StreamStopping
            self.batch = batch
            try:
                failpoint("after-checkpoint", batch - 1)
                self.durations_ms = {}
                self._run(posts, batch)
                failpoint("before-checkpoint", batch)
            except Exception as error:
                self.error = error
                raise

    def status(self) -> dict[str, object]:
        """Return metrics about the plan and about load shedding."""
        return {**self.shedder.status(), **self.index.status()}

    def _run(self, posts: DataFrame, batch: int) -> None:
        failpoint("before-read", batch)
        started_at = time.monotonic()
        files = files_of_batch(self.checkpoint, batch)
        with self._timer("index"):
            start, index = self._pin_versions(batch, files)
        failpoint("after-read", batch)
        if index is None:
            return
        check_files_exist(self.checkpoint, batch, files)
        self.check_files(files)
        failpoint("before-match", batch)
        chunks, stats = self._match(posts, index, batch, start.shed, estimate_input_bytes(files))
        self._locate_rejected(posts.sparkSession, files, chunks)
        failpoint("after-match", batch)
        with self._timer("storing"):
            rest = self.sink.write(start.stream, batch, index.version, chunks)
            self.commits.commit(start, self._batch_stats(index, stats), rest)
        seconds = time.monotonic() - started_at
        self.shedder.observe_batch(batch, seconds, stats)
        self.index.observe_batch(index, stats, self.matcher_metrics.loads_of(batch))
        LOG.debug(Event("batch matched", batch=batch, index_version=index.version, seconds=round(seconds, 3)))

    def _pin_versions(self, batch: int, files: Sequence[Path]) -> tuple[BatchStart, Index | None]:
        """Return the versions that a replayed batch began with, or the newest. No index: the batch is committed."""
        index, stream = self.index.refresh(batch), stream_id(self.checkpoint)
        start = _start_of(stream, batch, index, self.shedder.decide(batch, files))
        pin = self.commits.begin(start)
        if pin.done:
            return start, None
        if pin.index_version != index.version:
            index = self._open_pinned(stream, batch, pin, index)
        return _start_of(stream, batch, index, pin.shed), index

    def _open_pinned(self, stream: str, batch: int, pin: BatchPin, newest: Index) -> Index:
        try:
            return self.index.updater.open_version(pin.index_version)
        except IndexDamaged as error:
            if self.repin_lost_versions:
                self.commits.store.batches.repin(stream, batch, newest.version, _plan_version(newest))
                return newest
            raise InputError(
                f"{error.path}: {error.reason.partition('. ')[0]}. Batch {batch} began with this version "
                f"({pin.index_version}) of the index. Run with --repin-lost-versions to match it with the current "
                "subscriptions."
            ) from error

    def _match(
        self, posts: DataFrame, index: Index, batch: int, shed: str, input_bytes: int
    ) -> tuple[MatchChunks, RoutingStats]:
        """Run the batch. Results of all but small batches go to files: they may not fit into memory."""
        spill_dir = self.commits.rows_dir(batch) if input_bytes > SPILL_BYTES else None
        decision = parse_shed_record(shed, batch)
        routing = RoutingOptions(decision, self._routing_metrics.report, self.index.refresher.sample_texts)
        self.matcher_metrics.begin()
        self._routing_metrics.begin()
        with self._timer("matching"):
            ref = replace(shared_path_ref(index), matcher=self.matcher)
            rows = matched_posts(posts, index, ref, self.matcher_metrics.report, routing, spill_dir)
            chunks = collect_matches(rows, spill_dir, spill_by_spark=input_bytes > SPARK_SPILL_BYTES)
        stats = self._routing_metrics.end()
        self.matcher_metrics.end(batch, len(index.manifest.shards), stats.shed_by_matcher.tolist())
        return chunks, stats

    def _locate_rejected(self, spark: SparkSession, files: Sequence[Path], chunks: MatchChunks) -> None:
        """Add file and line to the rejected rows. They stay without if that fails, because the batch must go on."""
        if self.locate_rejected is None or not chunks.rejected or not files:
            return
        try:
            with self._timer("locating rejected rows"):
                chunks.set_located(self.locate_rejected(spark, files))
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            LOG.warning(Event("rejected rows not located", error=reason))

    def _batch_stats(self, index: Index, stats: RoutingStats) -> BatchStats:
        metrics: dict[str, object] = {name: round(value, 1) for name, value in self.durations_ms.items()}
        if stats.shed:
            metrics["shed"] = stats.shed
        by_owner = self._shed_accounting.lost_matches_by_owner(index, stats.anchors, stats.shed_by_anchor)
        return BatchStats(metrics, dict(enumerate(stats.shed_by_matcher.tolist())), dict(by_owner))

    @contextmanager
    def _timer(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.durations_ms[name] = (time.perf_counter() - start) * 1000


def write_batches(posts: DataFrame, runner: MicroBatchRunner) -> DataStreamWriter:
    """Connect posts to the runner. Selecting the columns for each batch would take longer than a small batch."""
    return select_all_fields(posts).writeStream.foreachBatch(runner)


def _start_of(stream: str, batch: int, index: Index, shed: str) -> BatchStart:
    return BatchStart(stream, batch, index.version, _plan_version(index), shed)


def _plan_version(index: Index) -> int:
    return 1 if index.manifest.plan is None else index.manifest.plan.version
