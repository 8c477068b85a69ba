"""A Spark session set up as Tidings likes it: this Python in the workers, a warm daemon, a quiet screen."""

from __future__ import annotations

import atexit
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

from tidings.spark.java import require_java

LOG_FILE = Path(tempfile.gettempdir()) / f"tidings-spark-{os.getpid()}.log"

NICENESS = "TIDINGS_NICENESS"  # of the Python workers, in the environment: Spark's daemon gets nothing else from us
_TROUBLE = (b"ERROR", b'Exception in thread "main"')  # the second where Spark did not even start
_PATIENCE_S = 45.0  # executors come within ten seconds, on a crowded machine within thirty

_SETTINGS = {
    "spark.python.daemon.module": "tidings.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.explainMode": "simple",  # nobody reads the plan that is described for every batch
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    # A batch of enormous posts must not grow past what a worker can hold.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Larger ones leave the caches on their way: routed posts came through at half the speed.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # Reading ahead of Python with more than one task a core only fights over the cores.
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.files.openCostInBytes": "262144",  # else small files weigh 4 MB, and cores get unequal shares of them
}

# What is shuffled on one machine never leaves it: compressing it costs more than writing it.
_ON_ONE_MACHINE = {
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}

# The logs of executors lie with the workers of a standalone cluster; those of weeks must not fill their disks.
_ON_A_CLUSTER = {
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": str(16 << 20),
    "spark.executor.logs.rolling.maxRetainedFiles": "4",
}


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session if there is one, else a new one on `master` (default: all cores of this machine)."""
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        return running
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers may pick a Python without the packages
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = master or os.environ.get("TIDINGS_MASTER", "local[*]")
    os.environ[NICENESS] = "10" if is_local(master) else "0"
    fitting = _ON_ONE_MACHINE if is_local(master) else _ON_A_CLUSTER
    builder = SparkSession.builder.appName("tidings").master(master)
    for key, value in {**_SETTINGS, **fitting, **_quiet(), **(settings or {})}.items():
        builder = builder.config(key, value)
    with _chatter_to_file():
        spark = builder.getOrCreate()
    if not is_local(master):
        _tell_later(spark, master)
    return spark


def _tell_later(spark: SparkSession, master: str) -> None:
    """Say so when the cluster has given no executor by then: Spark would wait for one in silence."""

    def look() -> None:
        with suppress(Exception):  # the session has ended meanwhile
            if _executors(spark) == 0:
                sys.stderr.write(f"tidings: {master} gives no executor yet: has any worker enough cores and memory?\n")

    timer = threading.Timer(_PATIENCE_S, look)
    timer.daemon = True
    timer.start()


def _executors(spark: SparkSession) -> int:
    context = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1  # it counts the driver


def is_connect(spark: SparkSession) -> bool:
    """Whether the session speaks to a Spark Connect server, so that there is no JVM and no context of ours."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores_of(spark: SparkSession) -> int:
    """How many tasks Spark runs at once where nothing else is said. A Connect server tells it by what it does."""
    if is_connect(spark):
        return spark.range(1 << 16).select(F.spark_partition_id()).distinct().count()
    return spark.sparkContext.defaultParallelism


def is_local(master: str) -> bool:
    """Whether the workers of a master are this very process and its children."""
    return master == "local" or master.startswith("local[")


def _quiet() -> dict[str, str]:
    """Executors warn too; those that have no such file, as the package lies elsewhere there, log as Spark does."""
    properties = resources.files("tidings.spark").joinpath("log4j2.properties")
    option = f"-Dlog4j2.configurationFile={Path(str(properties)).as_uri()}"
    return {
        "spark.driver.extraJavaOptions": option,
        "spark.executor.defaultJavaOptions": f"{option} -Dtidings.log.level=warn",
    }


def _forget_empty_log() -> None:
    """Leave Spark's log behind only when it tells of an error."""
    if LOG_FILE.exists() and not any(sign in LOG_FILE.read_bytes() for sign in _TROUBLE):
        LOG_FILE.unlink()


@contextmanager
def _chatter_to_file() -> Iterator[None]:
    """Start the JVM with its standard error in a file; it keeps that for life, we take ours back."""
    atexit.register(_forget_empty_log)
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with LOG_FILE.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
