"""What the figures of a stream mean: whether it runs, and how much of a batch is Spark's own bookkeeping."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from tidings.stream.metrics.snapshot import StreamFigures

STALE_SECONDS = 60.0


class Condition(StrEnum):
    """How a stream is, as far as one can tell from outside."""

    never = "never"
    running = "running"
    stale = "stale"
    stopped = "stopped"
    failed = "failed"
    gone = "gone"


class Health(NamedTuple):
    """The condition, and a sentence that says what it means."""

    condition: Condition
    sentence: str


def is_alive(pid: int) -> bool:
    """Whether a process of this machine has this id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def health(figures: StreamFigures | None, now: float, alive: Callable[[int], bool] = is_alive) -> Health:
    """How the stream that wrote these figures is at this moment."""
    if figures is None:
        return Health(Condition.never, "no stream ever ran here")
    who = f"process {figures.pid} on {figures.host}"
    age = now - figures.updated_at
    if figures.state == "stopped":
        return Health(Condition.stopped, f"stopped {duration(age)} ago; run it again to go on where it stopped")
    if figures.state == "failed":
        why = f": {figures.failure}" if figures.failure else ""
        return Health(Condition.failed, f"failed {duration(age)} ago{why}")
    if figures.host == socket.gethostname() and not alive(figures.pid):
        return Health(Condition.gone, f"{who} ended without a word; run it again to go on where it stopped")
    if age > STALE_SECONDS:
        return Health(Condition.stale, f"{who} has told nothing for {duration(age)}; these figures are old")
    return Health(Condition.running, f"running for {duration(now - figures.started_at)}, {who}")


def bookkeeping_share(durations_ms: Mapping[str, int]) -> float | None:
    """The part of the last batch in which Spark planned and kept its logs instead of working on posts.

    Of `triggerExecution`, the whole, only `addBatch` is the batch itself. None where Spark told neither.
    """
    whole, work = durations_ms.get("triggerExecution"), durations_ms.get("addBatch")
    if not whole or work is None:
        return None
    return min(max(1 - work / whole, 0.0), 1.0)


def duration(seconds: float) -> str:
    """In the unit people would use."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
