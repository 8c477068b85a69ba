"""The phase of a stream (starting, running, stopping, stopped), in a file that other processes read cheaply.

This module does not import PySpark: `tidings serve` reads the phase of its stream with it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from tidings.atomic_io import write_atomically

FILE = "phase.json"
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
        self._process = {"pid": os.getpid(), "host": socket.gethostname(), "started": _start_ticks(os.getpid())}

    def write(self, phase: Phase) -> None:
        """Replace the phase if it changes. A full disk must not end a stream: the old phase stays then."""
        if phase != self._phase:
            self._phase = phase
            with suppress(OSError):
                write_atomically(self._file, json.dumps({"phase": phase, "since": time.time(), **self._process}))


@contextmanager
def phase_of_stream(work_dir: Path) -> Iterator[PhaseFile]:
    """The phase of a stream that starts now and has stopped at the end."""
    file = PhaseFile(work_dir)
    file.write("starting")
    try:
        yield file
    finally:
        file.write("stopped")


def read_phase(work_dir: Path) -> StreamPhase | None:
    """Return the phase of the stream of a work directory; None if none ran there. A dead stream has stopped."""
    try:
        content = json.loads((work_dir / FILE).read_text("utf-8"))
        phase = StreamPhase(content["phase"], int(content["pid"]), float(content["since"]))
        host, started = str(content["host"]), content["started"]
    except (OSError, ValueError, KeyError, TypeError):  # missing or damaged
        return None
    if phase.phase not in get_args(Phase):
        return None
    is_dead = host == socket.gethostname() and not _is_alive(phase.pid, started)
    return StreamPhase(**{**asdict(phase), "phase": "stopped"}) if is_dead else phase


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
