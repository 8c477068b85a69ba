"""A Spark standalone cluster for tests: a master and workers, each a process of its own, from the installed pyspark."""

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
_NOT_GIVEN = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDINGS_MASTER", "TIDINGS_CACHE_DIR", "SPARK_CONF_DIR")
_SPARK = Path(pyspark.__file__).parent
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


def environment(folder: Path) -> dict[str, str]:
    """What every process of the cluster, and the driver, is started with: loopback only, its files in `folder`."""
    require_java()
    ours = {
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        "TMPDIR": str(folder / "tmp"),
    }
    theirs = {name: value for name, value in os.environ.items() if name not in _NOT_GIVEN}
    return {**theirs, **ours}


@contextmanager
def standalone(folder: Path, workers: int = 2, sites: Sequence[str] = ()) -> Iterator[str]:
    """The URL of a running cluster; its workers may have sites. All of it is gone afterwards, executors too."""
    (folder / "tmp").mkdir(parents=True)
    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_process(folder, "master", "master.Master", *options))
        url = _until(master, folder / "master.log", _MASTER_URL)
        for number in range(workers):
            own = ["--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(folder / f"work-{number}"), url]
            site = {"TIDINGS_SITE": sites[number]} if sites else {}
            stack.enter_context(_process(folder, f"worker-{number}", "worker.Worker", *options, *own, **site))
        for number in range(workers):
            _until(master, folder / f"worker-{number}.log", re.compile(f"({_REGISTERED})"))
        yield url


@contextmanager
def _process(folder: Path, name: str, what: str, *options: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which is ended as a whole."""
    command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *options]
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
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM first: a worker then ends its executors. What is left of the group after that is killed."""
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until(process: subprocess.Popen[bytes], log: Path, sign: re.Pattern[str]) -> str:
    """What the sign says, as soon as the log has it."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if found := sign.search(log.read_text("utf-8", "replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name}: nothing of {sign.pattern!r} in it:\n{log.read_text('utf-8', 'replace')[-3000:]}")


def running_in(folder: Path) -> list[str]:
    """The commands of all processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").resolve().is_relative_to(folder):
                found.append((process / "cmdline").read_text("utf-8", "replace").replace("\0", " "))
    return found
