"""Spark sessions with the settings of Tidings: this Python in the workers, a warm daemon, no output of the JVM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidings.log import Event
from tidings.spark.gateway import DRIVER_MEMORY, choose_master, ensure_jvm, is_local, settings_for_tests

_EXECUTOR_WAIT_S = 45.0  # executors register within 10 s, on a busy machine within 30 s
LOG = logging.getLogger("tidings.spark")

_SETTINGS = {
    "spark.python.daemon.module": "tidings.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.explainMode": "simple",  # the description of the plan of each batch is never read
    **DRIVER_MEMORY,
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


def session(
    master: str | None = None, settings: Mapping[str, str] | None = None, *, has_ml_functions: bool = True
) -> SparkSession:
    """Return the active session, or a new one on `master` (default: all cores of this machine).

    `settings` override the defaults. `TIDINGS_MASTER` replaces the default master. A session without the SQL functions
    of Spark ML starts faster.
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        return running
    master = choose_master(master)
    place = _LOCAL_SETTINGS if is_local(master) else _CLUSTER_SETTINGS
    chosen: dict[str, Any] = {**_SETTINGS, **place, **settings_for_tests(), **(settings or {})}
    ensure_jvm(master, chosen)
    if not has_ml_functions:
        _create_without_providers({**chosen, "spark.app.name": "tidings", "spark.master": master})
    spark = SparkSession.builder.appName("tidings").master(master).config(map=chosen).getOrCreate()
    if not is_local(master):
        _warn_if_no_executors(spark, master)
    return spark


def _create_without_providers(settings: Mapping[str, str]) -> None:
    """Create the default session so that Spark finds no providers of extensions, unless extensions are configured.

    Spark has one provider, for the SQL functions of Spark ML. What it does by reflection takes 0.4 s.
    """
    context = SparkContext.getOrCreate(SparkConf().setAll([*settings.items()]))
    if context.getConf().contains("spark.sql.extensions"):
        return
    jvm: Any = context._jvm
    builder = jvm.org.apache.spark.sql.classic.SparkSession.builder()
    for key, value in settings.items():
        builder.config(key, value)
    thread = jvm.java.lang.Thread.currentThread()
    loader, providers = thread.getContextClassLoader(), jvm.java.lang.ClassLoader.getPlatformClassLoader()
    thread.setContextClassLoader(providers)
    try:
        builder.getOrCreate()
    finally:
        thread.setContextClassLoader(loader)


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
