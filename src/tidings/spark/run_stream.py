"""`tidings run`: start the stream, keep it going, stop it so that nothing is lost and a second run goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidings.config import MAX_POSTS_A_BATCH
from tidings.errors import IndexDamaged, InputError, TidingsError
from tidings.index.follow import Follower
from tidings.index.manifest import PlanRecord
from tidings.spark.checkpoint import check, open_batch, stream_id
from tidings.spark.deliver import Delivery, ToKafka, ToParquet, ToStore
from tidings.spark.failures import in_words
from tidings.spark.found import forget
from tidings.spark.kafka import (
    SCHEME,
    check_jars,
    connector_missing,
    kafka_failure,
    kafka_settings,
    parse_kafka_url,
    read_kafka,
)
from tidings.spark.read import SETTINGS
from tidings.spark.session import LOG_FILE, is_local, session
from tidings.spark.source import Folder, first_look, read_folder
from tidings.spark.stop import cancelled_when, ended_by_signals, set_by_signals, stopped_afterwards
from tidings.spark.stream import Batches, Stopping, each_batch
from tidings.spark.taken import taken_files
from tidings.spark.waiting import WaitingFiles
from tidings.spark.watch import Listener, Watch
from tidings.store import Retention, Store, open_store
from tidings.watch.prometheus import serve

_POLL_S = 0.1
_FINISH_S = 8.0  # a batch that takes longer is given up; it is run again, whole, at the next start
_TIDY_S = 30.0
_LAST_WORD_S = 2.0  # Spark tells of a batch a little after it has ended
_INSTEAD = "put a whole one in its place, or an empty one to go on without it"
_DEFAULT_RETENTION = Retention()
_STREAM_SETTINGS = {
    **SETTINGS,
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # else times beyond the year 2262 come back as others
    # The one Spark takes for local files starts processes (readlink, chmod) for all it writes, eight and more a batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.minBatchesToRetain": "20",  # what a checkpoint keeps of the past
    "spark.sql.streaming.fileSource.log.compactInterval": "20",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60000",
    "spark.sql.streaming.stopTimeout": "10s",
}


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What to run, checked as far as is quick."""

    posts: str
    where: str  # of the store
    folder: Path
    deliver: str = "store"
    trigger: str = "500 milliseconds"
    max_posts_per_batch: int = MAX_POSTS_A_BATCH
    master: str | None = None
    plan: str = "replicated"
    matchers: int = 8
    metrics_port: int | None = None
    retention: Retention = _DEFAULT_RETENTION
    processed: str = "keep"
    pin_anew: bool = False
    once: bool = False  # take what is there and end


Say = Callable[[str], None]


def run_stream(request: StreamRequest, say: Say) -> None:
    """Run until told to stop (SIGINT, SIGTERM) or, with `once`, until all that is there is taken."""
    request.folder.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    with ExitStack() as stack:
        with ended_by_signals():
            store = stack.enter_context(open_store(request.where))
            stack.enter_context(store.hold_stream())
            _check_checkpoint(request.folder / "checkpoint", store)
            follower = _followed(request, store)
        stack.callback(follower.close)
        stack.enter_context(set_by_signals(stop))
        spark = stack.enter_context(_started(request))
        _run(request, store, follower, spark, stop, say, stack)


def _check_checkpoint(checkpoint: Path, store: Store) -> None:
    """InputError unless the stream can go on, with all files of a batch that has to be run again."""
    check(checkpoint, partial(_last_begun, store))
    batch = open_batch(checkpoint)
    if batch is not None and (stream_id(checkpoint), batch) not in _done(store):
        taken_files(checkpoint, batch)


def _last_begun(store: Store, stream: str) -> int:
    return max((one.batch for one in store.ledger(stream, last=1)), default=-1)


def _done(store: Store) -> set[tuple[str, int]]:
    return {(one.stream, one.batch) for one in store.ledger() if one.state == "done"}


def _followed(request: StreamRequest, store: Store) -> Follower:
    record = PlanRecord("hash", request.matchers, 2013) if request.plan == "partitioned" else None
    folder = request.folder / "index"
    try:
        return Follower(store, folder, record)
    except IndexDamaged as error:
        raise InputError(
            f"{error.path}: {error.reason.split(';')[0]}; remove {folder} and run again: it is made anew from the "
            "subscriptions in the store."
        ) from error


def _run(
    request: StreamRequest,
    store: Store,
    follower: Follower,
    spark: SparkSession,
    stop: threading.Event,
    say: Say,
    stack: ExitStack,
) -> None:
    checkpoint = request.folder / "checkpoint"
    source = _source(request, spark, stop, say)
    if source is None:
        return
    posts, waiting = source
    forget(spool := request.folder / "found")
    batches = Batches(
        store,
        follower,
        _delivery(request, spark),
        lambda: stream_id(checkpoint),
        lambda batch: taken_files(checkpoint, batch),
        spool,
        pin_anew=request.pin_anew,
    )
    watch = Watch(
        request.folder,
        store,
        request.posts,
        request.plan,
        lambda: follower.index,
        lambda: batches.spent_ms,
        waiting,
        batches.meter.of,
    )
    spark.streams.addListener(Listener(watch))
    if request.metrics_port is not None:
        server = serve(request.metrics_port, lambda: watch.figures)
        stack.callback(server.close)
        say(f"figures for Prometheus: http://127.0.0.1:{server.port}/metrics")
    stack.enter_context(_tidied(request, follower, say))
    try:
        query = _begun(request, posts, batches, checkpoint)
        count = follower.index.manifest.subscriptions
        say(f"taking posts from {request.posts}; {count:,} subscriptions. Ctrl-C stops.")
        _until_stopped(query, batches, stop)
        _hear_out(query, watch)
    except Exception as error:
        raise _failed(batches.failure or error, request, watch) from error
    watch.publish(state="stopped")
    say(f"stopped: {watch.figures.posts:,} posts, {watch.figures.matches:,} matches stored in this run.")


def _source(
    request: StreamRequest, spark: SparkSession, stop: threading.Event, say: Say
) -> tuple[DataFrame, Callable[[], int | None]] | None:
    """The posts as they come, and how many files wait; None when stopped before there is anything."""
    if request.posts.startswith(SCHEME):
        return _topic(request, spark), lambda: None
    say(f"looking at the files in {request.posts}")
    folder = None
    with cancelled_when(stop, spark):
        folder = _look(request, spark, stop)
    if folder is None:
        return None
    waiting = WaitingFiles(folder.path, folder.format, request.folder / "checkpoint" / "sources" / "0")
    return read_folder(spark, folder, request.max_posts_per_batch, request.processed), waiting.count


def _look(request: StreamRequest, spark: SparkSession, stop: threading.Event) -> Folder | None:
    try:
        return first_look(spark, request.posts, request.folder / "source.json", stop.is_set)
    except TidingsError:
        raise
    except Exception as error:
        raise in_words(error, request.folder, _INSTEAD) or error from error


def _topic(request: StreamRequest, spark: SparkSession) -> DataFrame:
    topic = parse_kafka_url(request.posts)
    try:
        return read_kafka(spark, topic, request.max_posts_per_batch)
    except Exception as error:
        raise kafka_failure(error, topic) or error from error


def _delivery(request: StreamRequest, spark: SparkSession) -> Delivery:
    if request.deliver == "store":
        return ToStore()
    if request.deliver.startswith(SCHEME):
        return ToKafka(spark, parse_kafka_url(request.deliver))
    return ToParquet(Path(request.deliver))


def _begun(request: StreamRequest, posts: DataFrame, batches: Batches, checkpoint: Path) -> StreamingQuery:
    writer = each_batch(posts, batches).option("checkpointLocation", os.path.abspath(checkpoint))
    timed = writer.trigger(availableNow=True) if request.once else writer.trigger(processingTime=request.trigger)
    return timed.queryName("tidings").start()


def _until_stopped(query: StreamingQuery, batches: Batches, stop: threading.Event) -> None:
    while query.isActive and not stop.is_set():
        stop.wait(_POLL_S)
    if not query.isActive:
        _raise_failure(query)
        return
    batches.stopping.set()  # from here on no batch begins
    until = time.monotonic() + _FINISH_S
    while time.monotonic() < until and query.isActive and _is_busy(query, batches):
        time.sleep(_POLL_S)
    query.stop()


def _hear_out(query: StreamingQuery, watch: Watch) -> None:
    """Wait for Spark's word on the last batch."""
    last = query.lastProgress
    until = time.monotonic() + _LAST_WORD_S
    while last is not None and watch.heard < last.batchId and time.monotonic() < until:
        time.sleep(_POLL_S)


def _is_busy(query: StreamingQuery, batches: Batches) -> bool:
    """Whether a batch runs, or has run and Spark has not yet noted it."""
    return batches.running.locked() or bool(query.status["isTriggerActive"])


def _raise_failure(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None and Stopping.__name__ not in str(error):
        raise error


def _failed(error: Exception, request: StreamRequest, watch: Watch) -> TidingsError:
    """What ended the stream, in one sentence where there is one."""
    known = error if isinstance(error, TidingsError) else in_words(error, request.folder, _INSTEAD)
    if known is None and request.posts.startswith(SCHEME):
        known = kafka_failure(error, parse_kafka_url(request.posts))
    said = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
    told = known or TidingsError(f"The stream ended: {said} (log: {LOG_FILE})")
    with suppress(OSError):  # where there is no room left, there is none for this either
        watch.publish(state="failed", failure=str(told))
    return told


@contextmanager
def _tidied(request: StreamRequest, follower: Follower, say: Say) -> Iterator[None]:
    """Every now and then forget what is beyond the bounds, on a connection and in a thread of its own."""
    done = threading.Event()

    def tidy() -> None:
        with open_store(request.where) as store:
            while not done.wait(_TIDY_S):
                try:
                    store.retain(request.retention)
                    follower.retire()
                except (TidingsError, OSError) as error:  # the stream itself goes on
                    say(f"tidying up failed and is tried again in {_TIDY_S:.0f} s: {error}")

    thread = threading.Thread(target=tidy, name="tidings-tidy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_TIDY_S)


def _forgiving(master: str | None) -> str:
    """On one machine Spark gives a task one try only, unless told otherwise; elsewhere four."""
    master = master or os.environ.get("TIDINGS_MASTER", "local[*]")
    if master == "local":
        return "local[1,4]"
    return f"{master[:-1]},4]" if is_local(master) and "," not in master else master


@contextmanager
def _started(request: StreamRequest) -> Iterator[SparkSession]:
    with_kafka = request.posts.startswith(SCHEME) or request.deliver.startswith(SCHEME)
    if with_kafka:
        check_jars()
    settings = {**_STREAM_SETTINGS, **(kafka_settings() if with_kafka else {})}
    asked = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        spark = session(_forgiving(request.master), settings)
    except TidingsError:
        raise
    except Exception as error:
        known = connector_missing(LOG_FILE.read_text("utf-8", "replace")) if with_kafka else None
        raise known or InputError(f"Spark could not be started; its log says why: {LOG_FILE}") from error
    with stopped_afterwards(spark):
        for number, handler in asked.items():  # Spark and `stopped_afterwards` put theirs
            signal.signal(number, handler)
        yield spark
