"""A Spark standalone cluster for tests: a master and workers as processes, from the installed pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from tidings.spark.java import require_java

CORES, MEMORY = 1, "1g"  # of each worker
START_SECONDS = 180.0
STOP_SECONDS = 10.0
_REMOVED_VARIABLES = (
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "TIDINGS_MASTER",
    "TIDINGS_CACHE_DIR",
    "SPARK_CONF_DIR",
)
_SPARK = Path(pyspark.__file__).parent
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of all processes of the cluster and of the driver: loopback only, files in `folder`."""
    require_java()
    changed = {
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        "TMPDIR": str(folder / "tmp"),
    }
    inherited = {name: value for name, value in os.environ.items() if name not in _REMOVED_VARIABLES}
    return {**inherited, **changed}


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, sites: Sequence[str] = ()) -> Iterator[str]:
    """Start a cluster and yield its URL; stop all its processes, also executors, at the end."""
    (folder / "tmp").mkdir(parents=True)
    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_process(folder, "master", "master.Master", *options))
        url = _wait_for(master, folder / "master.log", _MASTER_URL)
        for number in range(workers):
            worker_options = [
                "--cores",
                str(CORES),
                "--memory",
                MEMORY,
                "--work-dir",
                str(folder / f"work-{number}"),
                url,
            ]
            site = {"TIDINGS_SITE": sites[number]} if sites else {}
            stack.enter_context(
                _process(folder, f"worker-{number}", "worker.Worker", *options, *worker_options, **site)
            )
        for number in range(workers):
            _wait_for(master, folder / f"worker-{number}.log", re.compile(f"({_REGISTERED})"))
        yield url


@contextmanager
def _process(
    folder: Path, name: str, class_name: str, *options: str, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon of Spark in its own process group."""
    command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}", *options]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**environment(folder), **variables},
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM first, so that a worker stops its executors; then kill the rest of the group."""
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], log: Path, sign: re.Pattern[str]) -> str:
    """Wait until the log has the sign; return its first group."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if match := sign.search(log.read_text("utf-8", "replace")):
            return match[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} has no {sign.pattern!r}:\n{log.read_text('utf-8', 'replace')[-3000:]}")


def processes_in(folder: Path) -> list[str]:
    """Return the commands of all processes whose working directory is in a folder."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").resolve().is_relative_to(folder):
                commands.append((process / "cmdline").read_text("utf-8", "replace").replace("\0", " "))
    return commands
