"""End a stream: finish the running batch on request, or turn the error that ended it into one sentence."""

from __future__ import annotations

import threading
import time

from pyspark.sql.streaming.query import StreamingQuery

from tidings.errors import TidingsError
from tidings.spark.error_translation import translate
from tidings.spark.kafka import KAFKA_SCHEME, parse_kafka_url, translate_kafka_error
from tidings.spark.process_end import describe_jvm_end
from tidings.spark.run_files import current_run_files
from tidings.spark.signals import ignore_errors_once_stopping
from tidings.stream.micro_batch import MicroBatchRunner, StreamStopping
from tidings.stream.options import StreamOptions
from tidings.stream.phase import PhaseFile
from tidings.stream.progress_listener import StreamMetrics
from tidings.stream.sources import DAMAGED_FILE_HINT

_POLL_S = 0.1
_FINISH_TIMEOUT_S = 8.0  # a longer batch is abandoned; the next start replays it
_PROGRESS_TIMEOUT_S = 2.0  # Spark reports a batch shortly after its end


def run_until_stopped(query: StreamingQuery, runner: MicroBatchRunner, stop: threading.Event, phase: PhaseFile) -> None:
    """Wait until `stop` is set or the stream has ended; raise the error that ended it unless `stop` is set."""
    is_started = False
    while query.isActive and not stop.is_set() and runner.commits.error is None:
        if not is_started and (is_started := _has_started(query, runner)):
            phase.write("running")
        stop.wait(_POLL_S)
    if not query.isActive:
        with ignore_errors_once_stopping(stop, Exception):
            _raise_error(query)
        runner.commits.wait()
        return
    phase.write("stopping")
    runner.stopping.set()  # no batch begins after this
    deadline = time.monotonic() + _FINISH_TIMEOUT_S
    while time.monotonic() < deadline and query.isActive and _is_busy(query, runner):
        time.sleep(_POLL_S)
    query.stop()
    runner.commits.wait(max(0.0, deadline - time.monotonic()))  # the next start commits what is spilled


def drain_progress(query: StreamingQuery, metrics: StreamMetrics) -> None:
    """Wait for Spark's report on the last batch."""
    last = query.lastProgress
    deadline = time.monotonic() + _PROGRESS_TIMEOUT_S
    while last is not None and metrics.reported_batch < last.batchId and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def to_user_error(error: Exception, options: StreamOptions, metrics: StreamMetrics) -> TidingsError:
    """Return the error that ended the stream, in one sentence if it is a known one; publish it as the status."""
    known = error if isinstance(error, TidingsError) else translate(error, options.work_dir, DAMAGED_FILE_HINT)
    if not isinstance(error, TidingsError) and (ended := describe_jvm_end(error, metrics.describe_batch())) is not None:
        known = TidingsError(ended)
    if known is None and options.posts.startswith(KAFKA_SCHEME):
        known = translate_kafka_error(error, parse_kafka_url(options.posts))
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
    user_error = known or TidingsError(f"The stream ended: {first_line} (log: {current_run_files().log})")
    metrics.publish(state="failed", failure=str(user_error))
    return user_error


def _has_started(query: StreamingQuery, runner: MicroBatchRunner) -> bool:
    """Return whether the first batch has ended, or there are no posts for one."""
    has_matched = runner.batch is not None and not runner.running.locked()
    return has_matched or str(query.status["message"]).startswith("Waiting")


def _is_busy(query: StreamingQuery, runner: MicroBatchRunner) -> bool:
    """Return whether a batch runs, or has run and Spark has not recorded it yet."""
    return runner.running.locked() or bool(query.status["isTriggerActive"])


def _raise_error(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None and StreamStopping.__name__ not in str(error):
        raise error
