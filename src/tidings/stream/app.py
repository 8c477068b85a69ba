"""Run a stream: open its state, start Spark, run batches until stopped. A second run continues where it stopped."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidings.balance.spec import PlanSpec
from tidings.errors import InputError, StoreError
from tidings.log import Event
from tidings.private_files import make_private_folder
from tidings.spark.kafka import KAFKA_SCHEME, parse_kafka_url
from tidings.spark.process_end import named_jvm_end
from tidings.spark.signals import JVM_GONE, exit_on_signal, ignore_errors_once_stopping, set_event_on_signal
from tidings.store import Store, open_store
from tidings.store.database import Lease
from tidings.stream.checkpoint import check_checkpoint, check_committed, check_source, open_batch, stream_id
from tidings.stream.commit_queue import CommitQueue, recover_spilled
from tidings.stream.index_bootstrap import open_or_build_index
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.lease_watch import LeaseWatch, lease_watch
from tidings.stream.live_index import LiveIndex
from tidings.stream.load_shedding import LoadShedder
from tidings.stream.maintenance import maintenance_loop
from tidings.stream.metrics.correlations import FOLDER as CORRELATIONS
from tidings.stream.metrics.correlations import load_correlation_metrics
from tidings.stream.metrics.prometheus import serve_metrics
from tidings.stream.metrics.snapshot import recorded_failure
from tidings.stream.micro_batch import MicroBatchRunner, write_batches
from tidings.stream.options import StreamOptions
from tidings.stream.phase import PhaseFile, phase_of_stream
from tidings.stream.plan_refresh import PlanRefresher
from tidings.stream.progress_listener import ProgressListener, StreamMetrics
from tidings.stream.provenance import StoreProvenance
from tidings.stream.rebalancer import Rebalancer
from tidings.stream.session import SessionStart, stream_session
from tidings.stream.shutdown import drain_progress, run_until_stopped, to_user_error
from tidings.stream.sinks import MatchSink, open_sink
from tidings.stream.source_cleanup import SharedSourceCleaner, cleanup_loop
from tidings.stream.source_log import check_files_exist, files_of_batch
from tidings.stream.sources import StreamSource, open_source
from tidings.stream.state_dir import SPILL, state_dir_lease
from tidings.stream.train_archive import archive_training

LOG = logging.getLogger("tidings.stream")


@dataclass(frozen=True, slots=True)
class StreamState:
    """The open state of a stream. `spec` is None if the index is replicated; `sink` replaces that of the options."""

    store: Store
    updater: IndexUpdater
    spec: PlanSpec | None
    provenance: StoreProvenance
    phase: PhaseFile
    leases: tuple[Lease, ...]
    sink: MatchSink | None = None


def run_stream(options: StreamOptions) -> None:
    """Run until SIGINT or SIGTERM or, with `once`, until the input that exists is matched."""
    stop = threading.Event()
    with ExitStack() as stack:
        with exit_on_signal():
            start = SessionStart(options)  # Spark starts while the index is opened
            state = stack.enter_context(open_state(options))
        stack.enter_context(set_event_on_signal(stop))
        spark = stack.enter_context(stream_session(start, stop))
        with named_jvm_end("before the first batch"), ignore_errors_once_stopping(stop, *JVM_GONE):
            run_on_session(options, state, spark, stop)


@contextmanager
def open_state(options: StreamOptions) -> Iterator[StreamState]:
    """Open store and index, hold their leases, recover what a killed run left. Raises InputError if damaged."""
    work_dir = options.work_dir
    make_private_folder(work_dir)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(options.store_url))
        leases = (stack.enter_context(store.lease("stream")), stack.enter_context(state_dir_lease(work_dir)))
        phase = stack.enter_context(phase_of_stream(work_dir))
        stack.enter_context(recorded_failure(work_dir, options.posts))
        provenance = StoreProvenance(store, work_dir)
        if not provenance.matches_store():
            LOG.warning(Event("index discarded", work_dir=work_dir, reason="it was built from another store"))
            provenance.discard_derived_state()
        recover_spilled(store, work_dir / SPILL)
        _check_checkpoint(options, store)
        if options.correlate is not None:
            from tidings.correlate.windows import check_settings  # imported late: it loads kernels

            check_settings(work_dir / CORRELATIONS, options.correlate.settings)
        updater, spec = open_or_build_index(options, store)
        stack.callback(updater.close)
        provenance.record(updater.index.manifest.log_position)
        LOG.debug(
            Event("index opened", version=updater.index.version, subscriptions=updater.index.manifest.subscriptions)
        )
        yield StreamState(store, updater, spec, provenance, phase, leases)


def run_on_session(options: StreamOptions, state: StreamState, spark: SparkSession, stop: threading.Event) -> None:
    """Run the stream in a Spark session until `stop` is set or, with `once`, until the input is matched.

    Raises LeaseLost if another process may have taken over meanwhile.
    """
    with lease_watch(state.leases, stop) as watch:
        source = open_source(options, spark, stop, on_wait=partial(state.phase.write, "running"))
        if source is not None:
            _run_on_source(options, state, source, spark, stop, watch)
        watch.raise_error()


def _run_on_source(
    options: StreamOptions,
    state: StreamState,
    source: StreamSource,
    spark: SparkSession,
    stop: threading.Event,
    watch: LeaseWatch,
) -> None:
    if options.correlate is not None:
        _check_has_times(source)
    runner = _build_runner(options, state, source, spark, stop)
    metrics = StreamMetrics(options, source, runner)
    listener = ProgressListener(metrics)
    spark.streams.addListener(listener)
    try:
        with archive_training(), maintenance_loop(options, state.updater), _metrics_server(options, metrics):
            _run_query(options, state.phase, source, runner, metrics, spark, stop)
    finally:
        runner.index.close()
        with suppress(Exception):  # the JVM may be gone
            spark.streams.removeListener(listener)
    if watch.error is not None:
        raise to_user_error(watch.error, options, metrics)
    with suppress(StoreError):  # a database that went away does not make an orderly stop a failure
        metrics.refresh_totals()
    metrics.publish(state="stopped")
    LOG.info(Event("stream stopped", posts=metrics.snapshot.posts, matches=metrics.snapshot.matches))


def _check_checkpoint(options: StreamOptions, store: Store) -> None:
    """Raise InputError unless the stream can continue, with all files of a batch that has to be replayed."""
    checkpoint = options.checkpoint
    check_checkpoint(checkpoint, lambda stream: _last_begun(store, stream))
    topic = parse_kafka_url(options.posts).topic if options.posts.startswith(KAFKA_SCHEME) else None
    check_source(checkpoint, topic)
    if not (checkpoint / "metadata").exists():
        return
    stream, batch = stream_id(checkpoint), open_batch(checkpoint)
    last_begun = _last_begun(store, stream)
    uncommitted = [record.batch for record in store.batches.recent(stream) if record.state != "done"]
    check_committed(checkpoint, last_begun, uncommitted)
    if batch is not None and (batch in uncommitted or batch > last_begun):
        check_files_exist(checkpoint, batch, files_of_batch(checkpoint, batch))


def _last_begun(store: Store, stream: str) -> int:
    return max((record.batch for record in store.batches.recent(stream, limit=1)), default=-1)


def _check_has_times(source: StreamSource) -> None:
    if "time" not in source.posts.columns:
        columns = ", ".join(source.posts.columns)
        raise InputError(f"--correlate: posts need a column `time`. These posts have the columns: {columns}.")


def _build_runner(
    options: StreamOptions, state: StreamState, source: StreamSource, spark: SparkSession, stop: threading.Event
) -> MicroBatchRunner:
    """Return the runner; fit a first plan if there are posts to learn from."""
    work_dir, store = options.work_dir, state.store
    refresher = PlanRefresher(state.updater, store, state.spec, options.refresh_policy, work_dir / "plan.json")
    refresher.learn_first_plan(source.sample, stop)
    rebalancer = None
    if state.spec is not None and state.spec.is_spatial:
        rebalancer = Rebalancer(state.updater, state.spec, refresher.recent, options.rebalance, work_dir)
    return MicroBatchRunner(
        checkpoint=options.checkpoint,
        index=LiveIndex(state.updater, refresher, rebalancer, state.provenance),
        commits=CommitQueue(store, work_dir / SPILL, lambda: open_store(options.store_url)),
        sink=state.sink or open_sink(options.sink, spark),
        shedder=LoadShedder(options.shed, options.max_latency_s, source.backlog),
        check_files=source.check_files,
        locate_rejected=source.locate_rejected,
        repin_lost_versions=options.repin_lost_versions,
        matcher=options.matcher,
    )


@contextmanager
def _metrics_server(options: StreamOptions, metrics: StreamMetrics) -> Iterator[None]:
    if options.metrics_port is None:
        yield
        return
    folder = options.work_dir / CORRELATIONS
    server = serve_metrics(
        options.metrics_port,
        lambda: metrics.snapshot,
        lambda: None if options.correlate is None else load_correlation_metrics(folder),
    )
    LOG.info(Event("metrics server started", url=f"http://127.0.0.1:{server.port}/metrics"))
    try:
        yield
    finally:
        server.close()


def _run_query(
    options: StreamOptions,
    phase: PhaseFile,
    source: StreamSource,
    runner: MicroBatchRunner,
    metrics: StreamMetrics,
    spark: SparkSession,
    stop: threading.Event,
) -> None:
    try:
        query = _start_query(options, source, runner)
        subscriptions = runner.index.current.manifest.subscriptions
        LOG.info(Event("stream started", posts=options.posts, subscriptions=subscriptions))
        with ignore_errors_once_stopping(stop, *JVM_GONE), _correlations(options, source, spark, stop):
            run_until_stopped(query, runner, stop, phase)
            drain_progress(query, metrics)
    except Exception as error:
        raise to_user_error(runner.error or error, options, metrics) from error


def _start_query(options: StreamOptions, source: StreamSource, runner: MicroBatchRunner) -> StreamingQuery:
    writer = write_batches(source.posts, runner).option("checkpointLocation", os.path.abspath(options.checkpoint))
    trigger = {"availableNow": True} if options.once else {"processingTime": options.trigger}
    return writer.trigger(**trigger).queryName("tidings").start()


@contextmanager
def _correlations(
    options: StreamOptions, source: StreamSource, spark: SparkSession, stop: threading.Event
) -> Iterator[None]:
    """Run the correlation query, if any; delete files when both queries have committed them."""
    if options.correlate is None:
        yield
        return
    from tidings.stream.correlation_query import correlation_query  # imports pandas

    with ExitStack() as stack:
        if options.clean_source == "delete":
            correlation_checkpoint = options.work_dir / CORRELATIONS / "checkpoint"
            stack.enter_context(cleanup_loop(SharedSourceCleaner(options.checkpoint, correlation_checkpoint)))
        stack.enter_context(correlation_query(options, options.correlate, source.reopen, spark, stop))
        yield
