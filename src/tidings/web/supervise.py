"""Keeping child processes going: one that ends is started again, after a while that doubles; all end together."""

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

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
_WELL_S = 60.0  # who ran for so long begins anew with a short wait
_END_S = 8.0  # to end by itself; then it is killed
_LINE_BYTES = 1 << 16
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Child:
    """A program that is to run: what it is called in what we say, its command line, and what it finds in its
    environment (passwords belong there: command lines can be seen by everybody)."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


async def keep_going(child: Child, stop: asyncio.Event, say: Say) -> None:
    """Run it again and again until `stop` is set; then end it. What it prints is said with its name before it."""
    wait_s = FIRST_WAIT_S
    while not stop.is_set():
        started = time.monotonic()
        try:
            code, last = await _run(child, stop, say)
            told = f"ended ({_ending(code)})"
        except OSError as error:  # no memory or no process left: that passes
            told, last = f"cannot be started ({error.strerror or error})", ""
        if stop.is_set():
            return
        if time.monotonic() - started > _WELL_S:
            wait_s = FIRST_WAIT_S
        say(f"{child.name}: {told}; again in {wait_s:g} s" + (f". It said: {last}" if last else ""))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), wait_s)
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)


async def _run(child: Child, stop: asyncio.Event, say: Say) -> tuple[int, str]:
    """One life of it: how it ended, and its last line."""
    process = await asyncio.create_subprocess_exec(
        *child.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        limit=_LINE_BYTES,
        env={**os.environ, **child.environment},
        start_new_session=True,  # Ctrl-C is for us; we tell our children
        preexec_fn=_end_with_parent,
    )
    say(f"{child.name}: started, process {process.pid}")
    lines = asyncio.create_task(_listen(process, child.name, say))
    ending = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(process.wait())
    await asyncio.wait({ending, ended}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not ended.done():
        await _end(process, ended)
    with suppress(TimeoutError):
        await asyncio.wait_for(lines, 1.0)  # a grandchild may keep the pipe open
    return await ended, lines.result() if lines.done() and not lines.cancelled() else ""


async def _listen(process: Process, name: str, say: Say) -> str:
    last = ""
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # longer than anything worth reading
            continue
        if not line:
            return last
        if told := line.decode("utf-8", "replace").strip():
            last = told
            say(f"{name}: {told}")


async def _end(process: Process, ended: asyncio.Task[int]) -> None:
    """Ask it to end; if it does not, kill it and all that it started."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(ended), _END_S)
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    return f"code {code}" if code >= 0 else signal.Signals(-code).name


def _end_with_parent() -> None:
    """Linux: if we are killed, our children are asked to end too."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
