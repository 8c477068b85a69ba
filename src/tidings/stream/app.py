"""`tidings run`: start the stream, keep it going, stop it so that nothing is lost and a second run goes on."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidings.correlate.windows import check_settings
from tidings.errors import InputError
from tidings.spark.kafka import SCHEME, parse_kafka_url
from tidings.spark.signals import JVM_GONE, ended_by_signals, forgiven_when, set_by_signals
from tidings.store import Store, open_store
from tidings.store.lease import hold_file
from tidings.stream.checkpoint import check, check_source, check_stored, open_batch, stream_id
from tidings.stream.commit_queue import Storing, store_left
from tidings.stream.index_bootstrap import Following, followed
from tidings.stream.load_shedding import Shedder
from tidings.stream.maintenance import tidied
from tidings.stream.metrics.correlations import FOLDER, CorrelationFigures, load_correlations
from tidings.stream.metrics.prometheus import serve
from tidings.stream.micro_batch import Batches, each_batch
from tidings.stream.options import Say, StreamRequest
from tidings.stream.plan_refresh import Relearner
from tidings.stream.progress_listener import Listener, Newest, Watch
from tidings.stream.provenance import Lineage
from tidings.stream.rebalancer import Adjuster
from tidings.stream.session import started
from tidings.stream.shutdown import failed, hear_out, until_stopped
from tidings.stream.sinks import Delivery, ToKafka, ToParquet, ToStore
from tidings.stream.source_cleanup import TwiceTaken, deleting
from tidings.stream.source_log import taken_files
from tidings.stream.sources import Incoming, incoming


def run_stream(request: StreamRequest, say: Say) -> None:
    """Run until told to stop (SIGINT, SIGTERM) or, with `once`, until all that is there is taken."""
    request.folder.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    with ExitStack() as stack:
        with ended_by_signals():
            store = stack.enter_context(open_store(request.where))
            stack.enter_context(store.hold_stream())
            stack.enter_context(hold_file(request.folder / "work.lock", "stream", request.folder))  # for all stores
            lineage = _lineage(request, store, say)
            store_left(store, request.folder / "found")
            _check_checkpoint(request, store)
            if request.correlate is not None:
                check_settings(request.folder / FOLDER, request.correlate.settings)
            following = followed(request, store, say)
            lineage.note(following.follower.index.manifest.position)
        stack.callback(following.follower.close)
        stack.enter_context(set_by_signals(stop))
        spark = stack.enter_context(started(request))
        newest = Newest()
        source = incoming(request, spark, newest, stop, say)
        if source is not None:
            beside = _correlating(request, source, spark, stop, say)
            batches = _batches(request, store, following, source, spark, stop, say, lineage)
            watch = _watched(request, store, following, source, batches, newest)
            stack.enter_context(tidied(request, following.follower, say))
            _run(request, source.posts, batches, watch, spark, stop, say, beside)


def _lineage(request: StreamRequest, store: Store, say: Say) -> Lineage:
    """What is in the folder is of this store afterwards, or gone."""
    lineage = Lineage(store, request.folder)
    if not lineage.holds():
        say(f"the index in {request.folder} was made from another store, or from this one before it was put back")
        lineage.forget()
    return lineage


def _check_checkpoint(request: StreamRequest, store: Store) -> None:
    """InputError unless the stream can go on, with all files of a batch that has to be run again."""
    checkpoint = request.checkpoint
    check(checkpoint, partial(_last_begun, store))
    check_source(checkpoint, parse_kafka_url(request.posts).topic if request.posts.startswith(SCHEME) else None)
    if not (checkpoint / "metadata").exists():
        return
    stream, batch = stream_id(checkpoint), open_batch(checkpoint)
    unstored = [one.batch for one in store.ledger(stream) if one.state != "done"]
    check_stored(checkpoint, _last_begun(store, stream), unstored)
    if batch is not None and (batch in unstored or batch > _last_begun(store, stream)):
        taken_files(checkpoint, batch)


def _last_begun(store: Store, stream: str) -> int:
    return max((one.batch for one in store.ledger(stream, last=1)), default=-1)


def _batches(
    request: StreamRequest,
    store: Store,
    following: Following,
    source: Incoming,
    spark: SparkSession,
    stop: threading.Event,
    say: Say,
    lineage: Lineage,
) -> Batches:
    """All that a batch needs; a first plan is learned where there are posts to learn from."""
    kept = request.folder / "plan.json"
    relearner = Relearner(following.follower, store, following.wanted, request.relearn, kept, say)
    relearner.learn_first(source.sample, stop)
    return Batches(
        store,
        following.follower,
        _delivery(request, spark),
        lambda: stream_id(request.checkpoint),
        relearner,
        Shedder(request.shed, request.latency_s, source.unread),
        lambda batch: _files(request, source, batch),
        Storing(store, request.folder / "found", lambda: open_store(request.where)),
        pin_anew=request.pin_anew,
        adjuster=_adjuster(request, following, relearner, say),
        lineage=lineage,
    )


def _files(request: StreamRequest, source: Incoming, batch: int) -> list[Path]:
    """Those that a batch takes; InputError if one is gone, or cannot be read as the others are."""
    files = taken_files(request.checkpoint, batch)
    source.check(files)
    return files


def _adjuster(request: StreamRequest, following: Following, relearner: Relearner, say: Say) -> Adjuster | None:
    wanted, looked = following.wanted, request.folder / "adjust.json"
    if wanted is None or not wanted.by_space:
        return None
    return Adjuster(following.follower, wanted, relearner.recent, request.adjust, looked, say)


def _watched(
    request: StreamRequest, store: Store, following: Following, source: Incoming, batches: Batches, newest: Newest
) -> Watch:
    wanted = following.wanted
    about = {} if wanted is None else {"partitioner": wanted.partitioner, "placement": wanted.placement}
    if wanted is not None and wanted.by_space:
        about = {"partitioner": wanted.partitioner, "shared_out": "places and words"}
    return Watch(
        request.folder,
        store,
        request.posts,
        following.plan,
        lambda: following.follower.index,
        lambda: batches.spent_ms,
        source.waiting_files,
        batches.meter.of,
        lambda: {**about, **batches.told()},
        newest,
    )


def _run(
    request: StreamRequest,
    posts: DataFrame,
    batches: Batches,
    watch: Watch,
    spark: SparkSession,
    stop: threading.Event,
    say: Say,
    beside: AbstractContextManager[None],
) -> None:
    spark.streams.addListener(Listener(watch))
    with ExitStack() as stack:
        if request.metrics_port is not None:
            server = serve(request.metrics_port, lambda: watch.figures, lambda: _tags(request))
            stack.callback(server.close)
            say(f"figures for Prometheus: http://127.0.0.1:{server.port}/metrics")
        try:
            query = _begun(request, posts, batches)
            count = batches.follower.index.manifest.subscriptions
            say(f"taking posts from {request.posts}; {count:,} subscriptions. Ctrl-C stops.")
            with forgiven_when(stop, *JVM_GONE), beside:
                until_stopped(query, batches, stop)
                hear_out(query, watch)
        except Exception as error:
            raise failed(batches.failure or error, request, watch) from error
    watch.count_stored()
    watch.publish(state="stopped")
    say(f"stopped: {watch.figures.posts:,} posts, {watch.figures.matches:,} matches stored in this run.")


def _tags(request: StreamRequest) -> CorrelationFigures | None:
    return None if request.correlate is None else load_correlations(request.folder / FOLDER)


def _correlating(
    request: StreamRequest, source: Incoming, spark: SparkSession, stop: threading.Event, say: Say
) -> AbstractContextManager[None]:
    """What runs beside the matching where it was asked for; InputError if posts have no times."""
    if request.correlate is None:
        return nullcontext()
    if "time" not in source.posts.columns:
        found = ", ".join(source.posts.columns)
        raise InputError(f"--correlate: posts need a column `time` to be put into windows; these have: {found}.")
    from tidings.stream.correlation_query import correlated  # here: it brings pandas

    beside = correlated(request, request.correlate, source.again, spark, stop, say)
    if request.processed == "keep":
        return beside
    return deleting(beside, TwiceTaken(request.checkpoint, request.folder / FOLDER / "checkpoint"), say)


def _delivery(request: StreamRequest, spark: SparkSession) -> Delivery:
    if request.deliver == "store":
        return ToStore()
    if request.deliver.startswith(SCHEME):
        return ToKafka(spark, parse_kafka_url(request.deliver))
    return ToParquet(Path(request.deliver))


def _begun(request: StreamRequest, posts: DataFrame, batches: Batches) -> StreamingQuery:
    location = os.path.abspath(request.checkpoint)
    writer = each_batch(posts, batches).option("checkpointLocation", location)
    timed = writer.trigger(availableNow=True) if request.once else writer.trigger(processingTime=request.trigger)
    return timed.queryName("tidings").start()
