"""How a stream ends: asked to, with a batch finished; or by itself, with what went wrong in one sentence."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from pyspark.sql.streaming.query import StreamingQuery

from tidings.errors import TidingsError
from tidings.spark.error_translation import in_words
from tidings.spark.kafka import SCHEME, kafka_failure, parse_kafka_url
from tidings.spark.session import LOG_FILE
from tidings.stream.micro_batch import Batches, Stopping
from tidings.stream.options import StreamRequest
from tidings.stream.progress_listener import Watch

INSTEAD = "put a whole one in its place, or an empty one to go on without it"
_POLL_S = 0.1
_FINISH_S = 8.0  # a batch that takes longer is given up; it is run again, whole, at the next start
_LAST_WORD_S = 2.0  # Spark tells of a batch a little after it has ended


def until_stopped(query: StreamingQuery, batches: Batches, stop: threading.Event) -> None:
    """Wait until it is asked to stop, or has ended; raises what ended it."""
    while query.isActive and not stop.is_set() and batches.storing_failure is None:
        stop.wait(_POLL_S)
    if not query.isActive:
        _raise_failure(query)
        batches.until_stored()
        return
    batches.stopping.set()  # from here on no batch begins
    until = time.monotonic() + _FINISH_S
    while time.monotonic() < until and query.isActive and _is_busy(query, batches):
        time.sleep(_POLL_S)
    query.stop()
    batches.until_stored(max(0.0, until - time.monotonic()))  # what takes longer is kept, and stored at the next start


def hear_out(query: StreamingQuery, watch: Watch) -> None:
    """Wait for Spark's word on the last batch."""
    last = query.lastProgress
    until = time.monotonic() + _LAST_WORD_S
    while last is not None and watch.heard < last.batchId and time.monotonic() < until:
        time.sleep(_POLL_S)


def failed(error: Exception, request: StreamRequest, watch: Watch) -> TidingsError:
    """What ended the stream, in one sentence where there is one."""
    known = error if isinstance(error, TidingsError) else in_words(error, request.folder, INSTEAD)
    if known is None and request.posts.startswith(SCHEME):
        known = kafka_failure(error, parse_kafka_url(request.posts))
    said = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
    told = known or TidingsError(f"The stream ended: {said} (log: {LOG_FILE})")
    with suppress(OSError):  # where there is no room left, there is none for this either
        watch.publish(state="failed", failure=str(told))
    return told


def _is_busy(query: StreamingQuery, batches: Batches) -> bool:
    """Whether a batch runs, or has run and Spark has not yet noted it."""
    return batches.running.locked() or bool(query.status["isTriggerActive"])


def _raise_failure(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None and Stopping.__name__ not in str(error):
        raise error
