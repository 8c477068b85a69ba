"""The phase of a stream (starting, running, stopping, stopped), in a file that other processes read cheaply.

Readers that share the process ids of the stream check its process. Others, on another host or in another container,
see only the age of the file: a stream touches it periodically. The clocks of hosts may differ by less than a minute.

This module does not import PySpark: `tidings serve` reads the phase of its stream with it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from tidings.atomic_io import write_atomically

FILE = "phase.json"
_TOUCH_S = 10.0
_MAX_AGE_S = 60.0  # of the phase of a stream that lives
Phase = Literal["starting", "running", "stopping", "stopped"]


@dataclass(frozen=True, slots=True)
class StreamPhase:
    """What a stream does, and since when (Unix seconds)."""

    phase: Phase
    pid: int
    since: float


class PhaseFile:
    """Writes the phase of the stream of this process. The holder of the lease of the work directory has one."""

    def __init__(self, work_dir: Path) -> None:
        self._file = work_dir / FILE
        self._phase: Phase | None = None
        self._process = {"pid": os.getpid(), "started": _start_ticks(os.getpid()), **_pid_space()}

    def write(self, phase: Phase) -> None:
        """Replace the phase if it changes. A full disk must not end a stream: the old phase stays then."""
        if phase != self._phase:
            self._phase = phase
            with suppress(OSError):
                write_atomically(self._file, json.dumps({"phase": phase, "since": time.time(), **self._process}))

    def touch(self) -> None:
        """Show that this process lives; this works on a full disk too."""
        with suppress(OSError):
            os.utime(self._file)


@contextmanager
def phase_of_stream(work_dir: Path) -> Iterator[PhaseFile]:
    """The phase of a stream that starts now and has stopped at the end; it is touched periodically."""
    file, ended = PhaseFile(work_dir), threading.Event()
    file.write("starting")
    thread = threading.Thread(target=_touch_until, args=(ended, file), name="tidings-phase", daemon=True)
    thread.start()
    try:
        yield file
    finally:
        ended.set()
        thread.join(_TOUCH_S)
        file.write("stopped")


def _touch_until(ended: threading.Event, file: PhaseFile) -> None:
    while not ended.wait(_TOUCH_S):
        file.touch()


def read_phase(work_dir: Path) -> StreamPhase | None:
    """Return the phase of the stream of a work directory; None if none ran there. A dead stream has stopped."""
    try:
        with (work_dir / FILE).open(encoding="utf-8") as file:
            content, age_s = json.load(file), time.time() - os.fstat(file.fileno()).st_mtime
        phase = StreamPhase(content["phase"], int(content["pid"]), float(content["since"]))
        started, pid_space = content["started"], {name: content[name] for name in _pid_space()}
    except (OSError, ValueError, KeyError, TypeError):  # missing or damaged
        return None
    if phase.phase not in get_args(Phase):
        return None
    is_alive = _is_alive(phase.pid, started) if pid_space == _pid_space() else age_s < _MAX_AGE_S
    return phase if is_alive else StreamPhase(**{**asdict(phase), "phase": "stopped"})


def _pid_space() -> dict[str, str]:
    """Return where process ids are unique. Containers may share the name of their host, but not its processes."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        namespace = ""
    return {"host": socket.gethostname(), "pid_namespace": namespace}


def _is_alive(pid: int, started: int | None) -> bool:
    """Return whether the process that had this pid still runs; another process may have the pid now."""
    if Path("/proc/self/stat").exists():
        return started is not None and _start_ticks(pid) == started
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None if it has ended, or without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
