"""The Spark session of a stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from tidings.errors import InputError, TidingsError
from tidings.log import Event
from tidings.private_files import current_umask
from tidings.spark.gateway import choose_master, is_local
from tidings.spark.kafka import KAFKA_SCHEME, check_jars, kafka_settings, missing_connector_error
from tidings.spark.post_reader import READER_SETTINGS
from tidings.spark.process_end import describe_jvm_end
from tidings.spark.run_files import current_run_files, place_run_files
from tidings.spark.session import session
from tidings.spark.signals import owned_session, save_handlers
from tidings.stream.options import StreamOptions

LOG = logging.getLogger("tidings.stream")
_POLL_S = 0.1
_SIGNAL_DELAY_S = 1.0  # the JVM may receive a signal to the process group first
_TASK_ATTEMPTS = 4
STREAM_SETTINGS = {
    **READER_SETTINGS,
    # Spark lists more than 32 input files with one task per file, for every such batch and when it starts again after
    # one. For 500 files that took ten CPU seconds. Input directories are local, so the driver lists them faster.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default changes times after the year 2262
    # The default for local files starts processes (readlink, chmod) for every write, eight or more per batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.fileSource.log.compactInterval": "20",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60000",
    "spark.sql.streaming.stopTimeout": "10s",
}


class SessionStart:
    """Starts the session of a stream in the background, and then the Python daemon of its workers."""

    def __init__(self, options: StreamOptions) -> None:
        place_run_files(options.work_dir)
        self.uses_kafka = options.posts.startswith(KAFKA_SCHEME) or options.sink.startswith(KAFKA_SCHEME)
        if self.uses_kafka:
            check_jars()
        self._master, self._settings = _with_task_retries(options.master), _settings_of(options, self.uses_kafka)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True, name="tidings-session")
        self._is_ready = threading.Event()
        self._thread.start()

    def wait(self, stop: threading.Event) -> SparkSession:
        """Return the session. Raises SystemExit if `stop` is set meanwhile: nothing runs that must be finished."""
        while not self._is_ready.wait(_POLL_S):
            if stop.is_set():
                raise SystemExit(0)
        if self._error is not None:
            raise self._error
        return session(self._master, self._settings)  # the same session, active in this thread

    def _start(self) -> None:
        spark = None
        try:
            spark = session(self._master, self._settings, has_ml_functions=False)
        except Exception as error:
            self._error = error
        finally:
            self._is_ready.set()
        if spark is not None and is_local(self._master):
            with suppress(Exception):  # the session may end meanwhile
                _start_daemon(spark)


@contextmanager
def stream_session(start: SessionStart, stop: threading.Event) -> Iterator[SparkSession]:
    """The session that was started; it is stopped at the end. Signal handlers do not change."""
    restore_handlers = save_handlers()
    try:
        spark = start.wait(stop)
    except TidingsError:
        raise
    except Exception as error:
        if stop.wait(_SIGNAL_DELAY_S):  # SIGTERM to the process group also ends the JVM
            raise SystemExit(0) from None
        if (ended := describe_jvm_end(error, "while it started")) is not None and "killed" in ended:
            raise TidingsError(ended) from error
        log = current_run_files().log
        known = missing_connector_error(log.read_text("utf-8", "replace")) if start.uses_kafka else None
        raise known or InputError(f"Spark did not start. See its log: {log}") from error
    LOG.debug(Event("Spark started"))
    with owned_session(spark):
        restore_handlers()
        yield spark


def _settings_of(options: StreamOptions, uses_kafka: bool) -> dict[str, str]:
    fair = {"spark.scheduler.mode": "FAIR"} if options.correlate is not None else {}  # two queries run concurrently
    modes = {"spark.hadoop.fs.permissions.umask-mode": f"{current_umask():03o}"}  # Hadoop ignores that of the process
    return {**STREAM_SETTINGS, **modes, **fair, **(kafka_settings() if uses_kafka else {})}


def _start_daemon(spark: SparkSession) -> None:
    """Let Spark start the Python daemon. A job of an RDD does it two seconds before one of a DataFrame could."""
    context = spark.sparkContext
    context.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"  # as for DataFrames: other settings get another daemon
    context.parallelize([0], 1).foreach(_do_nothing)


def _do_nothing(_: int) -> None:
    pass


def _with_task_retries(master: str | None) -> str:
    """Return the master with four attempts per task, as on a cluster; local masters try only once by default."""
    master = choose_master(master)
    if master == "local":
        return f"local[1,{_TASK_ATTEMPTS}]"
    return f"{master[:-1]},{_TASK_ATTEMPTS}]" if is_local(master) and "," not in master else master
