"""The Spark session of a stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidings.errors import InputError, TidingsError
from tidings.spark.kafka import KAFKA_SCHEME, check_jars, kafka_settings, missing_connector_error
from tidings.spark.post_reader import READER_SETTINGS
from tidings.spark.session import LOG_FILE, is_local, session
from tidings.spark.signals import owned_session, save_handlers
from tidings.stream.options import StreamOptions

_TASK_ATTEMPTS = 4
STREAM_SETTINGS = {
    **READER_SETTINGS,
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default changes times after the year 2262
    # The default for local files starts processes (readlink, chmod) for every write, eight or more per batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.fileSource.log.compactInterval": "20",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60000",
    "spark.sql.streaming.stopTimeout": "10s",
}


@contextmanager
def stream_session(options: StreamOptions) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end. Signal handlers do not change."""
    uses_kafka = options.posts.startswith(KAFKA_SCHEME) or options.sink.startswith(KAFKA_SCHEME)
    if uses_kafka:
        check_jars()
    fair = {"spark.scheduler.mode": "FAIR"} if options.correlate is not None else {}  # two queries run concurrently
    settings = {**STREAM_SETTINGS, **fair, **(kafka_settings() if uses_kafka else {})}
    restore_handlers = save_handlers()
    try:
        spark = session(_with_task_retries(options.master), settings)
    except TidingsError:
        raise
    except Exception as error:
        known = missing_connector_error(LOG_FILE.read_text("utf-8", "replace")) if uses_kafka else None
        raise known or InputError(f"Spark did not start. See its log: {LOG_FILE}") from error
    with owned_session(spark):
        restore_handlers()
        yield spark


def _with_task_retries(master: str | None) -> str:
    """Return the master with four attempts per task, as on a cluster; local masters try only once by default."""
    master = master or os.environ.get("TIDINGS_MASTER", "local[*]")
    if master == "local":
        return f"local[1,{_TASK_ATTEMPTS}]"
    return f"{master[:-1]},{_TASK_ATTEMPTS}]" if is_local(master) and "," not in master else master
