"""Say how the Java process of Spark ended: Spark itself only reports that a connection was closed."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError

from tidings.errors import TidingsError
from tidings.spark.gateway import jvm_process
from tidings.spark.run_files import log_file

_EXIT_WAIT_S = 3.0  # between the end of a connection and the end of its process
_MEMORY_HINT = "lower spark.driver.memory, use fewer cores (--master 'local[1]'), or give the machine more memory."
_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_EXIT_ON_SIGNAL = 128  # shells report signals so


@contextmanager
def named_jvm_end(when: str = "") -> Iterator[None]:
    """Raise TidingsError with the end of the Java process instead of the error that it causes here."""
    try:
        yield
    except TidingsError:
        raise
    except Exception as error:
        if (sentence := describe_jvm_end(error, when)) is not None:
            raise TidingsError(sentence) from error
        raise


def describe_jvm_end(error: BaseException, when: str = "") -> str | None:
    """Return how the Java process ended, with its id, signal and a remedy; None if it runs or was never started."""
    process = jvm_process()
    if process is None:
        return None
    try:
        is_lost = isinstance(error, Py4JError | ConnectionError)
        code = process.wait(_EXIT_WAIT_S) if is_lost else process.poll()
    except subprocess.TimeoutExpired:
        return None
    if code is None:
        return None
    return _describe(process.pid, -code if code < 0 else code - _EXIT_ON_SIGNAL, code, when)


def _describe(pid: int, number: int, code: int, when: str) -> str:
    subject = f"The Java process of Spark ({pid})"
    place = f" {when}" if when else ""
    if number not in {item.value for item in signal.Signals}:
        return f"{subject} exited with code {code}{place}. See its log: {log_file()}"
    sentence = f"{subject} was killed by {signal.Signals(number).name}{place}."
    if number != signal.SIGKILL:
        return sentence
    kills = count_oom_kills()
    cause = f"has ended {kills} processes here for lack of memory" if kills else "may have run out of memory"
    return f"{sentence} The kernel {cause}: {_MEMORY_HINT}"


def count_oom_kills(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many processes of this control group the kernel has killed for lack of memory; 0 if unknown."""
    try:
        path = own.read_text("utf-8").strip().splitlines()[-1].rpartition("::")[2].lstrip("/")
        folder = root / path if (root / path / "memory.events").is_file() else root
        found = _OOM_KILLS.search((folder / "memory.events").read_text("utf-8"))
    except (OSError, IndexError):
        return 0
    return int(found[1]) if found else 0
