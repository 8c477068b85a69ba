"""Spark sessions with the settings of Tidings: this Python in the workers, a warm daemon, no output of the JVM."""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidings.log import Event
from tidings.spark.java import require_java

LOG_FILE = Path(tempfile.gettempdir()) / f"tidings-spark-{os.getpid()}.log"

NICENESS_VARIABLE = "TIDINGS_NICENESS"  # niceness of the Python workers; Spark passes only the environment to them
SETTINGS_VARIABLE = "TIDINGS_SPARK_SETTINGS"  # for tests: JSON object of settings, see `tidings.testing`
_ERROR_SIGNS = (b"ERROR", b'Exception in thread "main"')  # the second if Spark did not start
_EXECUTOR_WAIT_S = 45.0  # executors register within 10 s, on a busy machine within 30 s
LOG = logging.getLogger("tidings.spark")

_SETTINGS = {
    "spark.python.daemon.module": "tidings.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.explainMode": "simple",  # the description of the plan of each batch is never read
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    # A batch of very long posts must fit into the memory of a worker.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Larger batches do not fit into the CPU caches: throughput of routed posts was halved.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # More than one task per core reading ahead of Python only competes for the cores.
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.files.openCostInBytes": "262144",  # by default a small file counts as 4 MB, and cores get unequal shares
}

# On one machine, compressing shuffle files costs more than writing them.
_LOCAL_SETTINGS = {
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}

# Workers of a standalone cluster keep the logs of executors: limit them, so that long streams do not fill disks.
_CLUSTER_SETTINGS = {
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": str(16 << 20),
    "spark.executor.logs.rolling.maxRetainedFiles": "4",
}


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the active session, or a new one on `master` (default: all cores of this machine).

    `settings` override the defaults. `TIDINGS_MASTER` replaces the default master.
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        return running
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers may find a Python without our packages
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = master or os.environ.get("TIDINGS_MASTER", "local[*]")
    os.environ[NICENESS_VARIABLE] = "10" if is_local(master) else "0"
    place = _LOCAL_SETTINGS if is_local(master) else _CLUSTER_SETTINGS
    for_tests = json.loads(os.environ.get(SETTINGS_VARIABLE, "{}"))
    builder = SparkSession.builder.appName("tidings").master(master)
    for key, value in {**_SETTINGS, **place, **_log4j_options(), **for_tests, **(settings or {})}.items():
        builder = builder.config(key, value)
    with _redirect_jvm_stderr():
        spark = builder.getOrCreate()
    if not is_local(master):
        _warn_if_no_executors(spark, master)
    return spark


def _warn_if_no_executors(spark: SparkSession, master: str) -> None:
    """Log a warning if the cluster provides no executor in time: Spark waits without a message."""

    def check() -> None:
        with suppress(Exception):  # the session has ended
            if _count_executors(spark) == 0:
                advice = "check that a worker has enough free cores and memory"
                LOG.warning(Event("no executor registered yet", master=master, advice=advice))

    timer = threading.Timer(_EXECUTOR_WAIT_S, check)
    timer.daemon = True
    timer.start()


def _count_executors(spark: SparkSession) -> int:
    context = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1  # it includes the driver


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Spark Connect server, without a JVM and a context of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def count_cores(spark: SparkSession) -> int:
    """Return the default number of concurrent tasks. A Connect server only shows it by how it splits a range."""
    if is_connect(spark):
        return spark.range(1 << 16).select(F.spark_partition_id()).distinct().count()
    return spark.sparkContext.defaultParallelism


def is_local(master: str) -> bool:
    """Whether the workers run in this process and its children."""
    return master == "local" or master.startswith("local[")


def _log4j_options() -> dict[str, str]:
    """Return the settings for quiet logging. Executors without this file use the defaults of Spark."""
    properties = resources.files("tidings.spark").joinpath("log4j2.properties")
    option = f"-Dlog4j2.configurationFile={Path(str(properties)).as_uri()}"
    return {
        "spark.driver.extraJavaOptions": option,
        "spark.executor.defaultJavaOptions": f"{option} -Dtidings.log.level=warn",
    }


def _delete_clean_log() -> None:
    """Delete the log of Spark unless it contains an error."""
    if LOG_FILE.exists() and not any(sign in LOG_FILE.read_bytes() for sign in _ERROR_SIGNS):
        LOG_FILE.unlink()


@contextmanager
def _redirect_jvm_stderr() -> Iterator[None]:
    """Send standard error to the log file while the JVM starts, which inherits it for life."""
    atexit.register(_delete_clean_log)
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with LOG_FILE.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
