"""The Spark session of a stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidings.errors import InputError, TidingsError
from tidings.spark.kafka import SCHEME, check_jars, connector_missing, kafka_settings
from tidings.spark.post_reader import SETTINGS
from tidings.spark.session import LOG_FILE, is_local, session
from tidings.spark.signals import handlers, stopped_afterwards
from tidings.stream.options import StreamRequest

STREAM_SETTINGS = {
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


@contextmanager
def started(request: StreamRequest) -> Iterator[SparkSession]:
    """Running as long as the context lasts; signals go to whom they went before."""
    with_kafka = request.posts.startswith(SCHEME) or request.deliver.startswith(SCHEME)
    if with_kafka:
        check_jars()
    fair = {"spark.scheduler.mode": "FAIR"} if request.correlate is not None else {}  # two queries share the machine
    settings = {**STREAM_SETTINGS, **fair, **(kafka_settings() if with_kafka else {})}
    put_back = handlers()
    try:
        spark = session(_forgiving(request.master), settings)
    except TidingsError:
        raise
    except Exception as error:
        known = connector_missing(LOG_FILE.read_text("utf-8", "replace")) if with_kafka else None
        raise known or InputError(f"Spark could not be started; its log says why: {LOG_FILE}") from error
    with stopped_afterwards(spark):
        put_back()
        yield spark


def _forgiving(master: str | None) -> str:
    """On one machine Spark gives a task one try only, unless told otherwise; elsewhere four."""
    master = master or os.environ.get("TIDINGS_MASTER", "local[*]")
    if master == "local":
        return "local[1,4]"
    return f"{master[:-1]},4]" if is_local(master) and "," not in master else master
