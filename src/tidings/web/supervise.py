"""Supervise child processes: restart those that exit, after a delay that doubles; stop them all together."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

FIRST_DELAY_S, MAX_DELAY_S = 1.0, 60.0
_STABLE_S = 60.0  # a child that ran this long is restarted with the first delay
_STOP_S = 8.0  # for an orderly exit; then the child is killed
_LINE_BYTES = 1 << 16
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Child:
    """A child process, with its pid while it runs.

    Passwords belong into the environment: all users can see command lines.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    pids: set[int] = field(default_factory=set, compare=False)

    def is_alive(self) -> bool:
        return bool(self.pids)


async def keep_running(child: Child, stop: asyncio.Event, report: Report) -> None:
    """Run a child again and again until `stop` is set; report its output and its exits with its name."""
    delay_s = FIRST_DELAY_S
    while not stop.is_set():
        started = time.monotonic()
        try:
            code, last_line = await _run_once(child, stop, report)
            event = f"exited ({_describe_exit(code)})"
        except OSError as error:  # out of memory or processes, which may be temporary
            event, last_line = f"cannot be started ({error.strerror or error})", ""
        if stop.is_set():
            return
        if time.monotonic() - started > _STABLE_S:
            delay_s = FIRST_DELAY_S
        report(f"{child.name}: {event}; restart in {delay_s:g} s" + (f". Last line: {last_line}" if last_line else ""))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay_s)
        delay_s = min(delay_s * 2, MAX_DELAY_S)


async def _run_once(child: Child, stop: asyncio.Event, report: Report) -> tuple[int, str]:
    """Run a child until it exits or `stop` is set; return its exit code and its last line."""
    process = await asyncio.create_subprocess_exec(
        *child.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        limit=_LINE_BYTES,
        env={**os.environ, **child.environment},
        start_new_session=True,  # Ctrl-C reaches only this process, which stops its children
        preexec_fn=_stop_with_parent,
    )
    child.pids.add(process.pid)
    report(f"{child.name}: started, process {process.pid}")
    lines = asyncio.create_task(_report_lines(process, child.name, report))
    stopping = asyncio.create_task(stop.wait())
    exited = asyncio.create_task(process.wait())
    await asyncio.wait({stopping, exited}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not exited.done():
        await _stop(process, exited)
    child.pids.discard(process.pid)
    with suppress(TimeoutError):
        await asyncio.wait_for(lines, 1.0)  # a grandchild may keep the pipe open
    return await exited, lines.result() if lines.done() and not lines.cancelled() else ""


async def _report_lines(process: Process, name: str, report: Report) -> str:
    """Report the output of a child and return its last line."""
    last = ""
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # longer than `_LINE_BYTES`
            continue
        if not line:
            return last
        if text := line.decode("utf-8", "replace").strip():
            last = text
            report(f"{name}: {text}")


async def _stop(process: Process, exited: asyncio.Task[int]) -> None:
    """Send SIGTERM; after `_STOP_S` kill the child and its whole process group."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(exited), _STOP_S)
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _describe_exit(code: int) -> str:
    return f"code {code}" if code >= 0 else signal.Signals(-code).name


def _stop_with_parent() -> None:
    """Linux: a child gets SIGTERM if this process is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
