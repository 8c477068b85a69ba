"""Start the JVM of Spark, quickly and with private files: early, while this process imports everything else.

This module imports little of PySpark, so that the JVM can start first.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

from pyspark import java_gateway
from pyspark.conf import SparkConf
from pyspark.core.context import SparkContext
from pyspark.find_spark_home import _find_spark_home

from tidings.spark.class_archive import archive_options
from tidings.spark.java import require_java
from tidings.spark.run_files import current_run_files

DRIVER_MEMORY = {"spark.driver.memory": "4g"}
NICENESS_VARIABLE = "TIDINGS_NICENESS"  # niceness of the Python workers; Spark passes only the environment to them
SETTINGS_VARIABLE = "TIDINGS_SPARK_SETTINGS"  # for tests: JSON object of settings, see `tidings.testing`
_SMALL_MACHINE_CORES = 2
_GC_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
# The C2 compiler used half of the CPU time of a start. With ten times the usual thresholds it compiles only code that
# stays hot; the rest stays with C1.
_C1_FIRST = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_METASPACE = "-XX:MetaspaceSize=256m"  # with the default, a full collection delays the first batch by 0.1 s
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_lock = threading.Lock()
_processes: list[subprocess.Popen[bytes]] = []  # the Java process that was started last, if any


def ensure_jvm(master: str, settings: Mapping[str, str]) -> None:
    """Start the JVM unless it runs. Options for it that `settings` contain replace ours."""
    with _lock:
        if SparkContext._gateway is not None:
            return
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers may find another Python
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ[NICENESS_VARIABLE] = "10" if is_local(master) else "0"
        conf = SparkConf(loadDefaults=False)
        conf.setAll([*{**DRIVER_MEMORY, **jvm_options(), **settings_for_tests(), **settings}.items()])
        atexit.register(_end_starting_jvm)
        SparkContext._ensure_initialized(gateway=_launch(conf))


def start_jvm(master: str | None) -> None:
    """Start the JVM in the background. If that fails, the session tries again and raises the error."""

    def start() -> None:
        with suppress(Exception):
            ensure_jvm(choose_master(master), {})

    threading.Thread(target=start, daemon=True, name="tidings-jvm").start()


def jvm_process() -> subprocess.Popen[bytes] | None:
    """Return the Java process that this process has started; None if there is none."""
    return _processes[0] if _processes else None


def _end_starting_jvm() -> None:
    """End a JVM that is still starting; one that runs ends with this process."""
    process = jvm_process()
    if process is not None and SparkContext._gateway is None:
        process.kill()


def choose_master(master: str | None) -> str:
    """Return the master: as given, as in `TIDINGS_MASTER`, or all cores of this machine."""
    return master or os.environ.get("TIDINGS_MASTER", "local[*]")


def is_local(master: str) -> bool:
    """Whether the workers run in this process and its children."""
    return master == "local" or master.startswith("local[")


def settings_for_tests() -> dict[str, str]:
    """Return the settings that tests pass in the environment."""
    return dict(json.loads(os.environ.get(SETTINGS_VARIABLE, "{}")))


def jvm_options() -> dict[str, str]:
    """Return the settings with the options of the JVMs. Executors without our log file use the defaults of Spark."""
    properties = resources.files("tidings.spark").joinpath("log4j2.properties")
    logging = f"-Dlog4j2.configurationFile={Path(str(properties)).as_uri()}"
    files = current_run_files()
    private = (f"-Djava.io.tmpdir={files.temporary}", "-XX:-UsePerfData")
    start = (*_C1_FIRST, _METASPACE, *_collector())
    archive = archive_options(os.environ.get("JAVA_HOME", ""), _find_spark_home())
    driver = (logging, *map(_quote, private), *start, *map(_quote, archive))
    return {
        "spark.driver.extraJavaOptions": " ".join(driver),
        "spark.executor.defaultJavaOptions": f"{logging} -Dtidings.log.level=warn",
    }


def _collector() -> tuple[str, ...]:
    """On few cores, one thread collects garbage with less CPU time, and seldom at the start. The user's choice wins."""
    is_chosen = any("GC" in os.environ.get(name, "") for name in _GC_VARIABLES)
    is_small = len(os.sched_getaffinity(0)) <= _SMALL_MACHINE_CORES if hasattr(os, "sched_getaffinity") else False
    return ("-XX:+UseSerialGC", "-XX:NewSize=256m") if is_small and not is_chosen else ()


def _quote(option: str) -> str:
    """Quote an option with a path, as Spark's launcher expects it."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _launch(conf: SparkConf) -> Any:
    """Start the JVM with its standard error in Spark's log, and the temporary directory of this run."""
    files = current_run_files()
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    sys.stderr.flush()
    log = files.open_log()
    try:
        with _recorded_process():
            return java_gateway.launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
    finally:
        os.close(log)


@contextmanager
def _recorded_process() -> Iterator[None]:
    """Keep the process that PySpark starts: it is lost if the start fails or is interrupted."""
    module: Any = java_gateway
    start_process = module.Popen

    def start_and_record(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = start_process(*arguments, **options)
        _processes[:] = [process]
        return process

    module.Popen = start_and_record
    try:
        yield
    finally:
        module.Popen = start_process
