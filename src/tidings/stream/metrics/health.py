"""Interpret the metrics of a stream: whether it runs, and the share of a batch that is Spark's overhead."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from tidings.stream.metrics.snapshot import StreamSnapshot

STALE_S = 60.0


class Condition(StrEnum):
    """The condition of a stream, as seen from outside."""

    never = "never"
    running = "running"
    stale = "stale"
    stopped = "stopped"
    failed = "failed"
    gone = "gone"


class Health(NamedTuple):
    """The condition, and a sentence about it."""

    condition: Condition
    sentence: str


def is_alive(pid: int) -> bool:
    """Return whether a process of this machine has this id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def health(snapshot: StreamSnapshot | None, now: float, alive: Callable[[int], bool] = is_alive) -> Health:
    """Return the health of the stream that wrote the snapshot."""
    if snapshot is None:
        return Health(Condition.never, "no stream ever ran here")
    process = f"process {snapshot.pid} on {snapshot.host}"
    age = now - snapshot.updated_at
    if snapshot.state == "stopped":
        return Health(Condition.stopped, f"stopped {format_duration(age)} ago; run it again to continue")
    if snapshot.state == "failed":
        reason = f": {snapshot.failure}" if snapshot.failure else ""
        return Health(Condition.failed, f"failed {format_duration(age)} ago{reason}")
    if snapshot.host == socket.gethostname() and not alive(snapshot.pid):
        return Health(Condition.gone, f"{process} ended unexpectedly; run it again to continue")
    if age > STALE_S:
        return Health(Condition.stale, f"{process} has not reported for {format_duration(age)}; the metrics are old")
    return Health(Condition.running, f"running for {format_duration(now - snapshot.started_at)}, {process}")


def bookkeeping_share(durations_ms: Mapping[str, int]) -> float | None:
    """Return the share of the last batch that Spark spent on planning and logs; None if it reported no durations.

    `triggerExecution` is the whole batch, `addBatch` the work on posts.
    """
    whole, work = durations_ms.get("triggerExecution"), durations_ms.get("addBatch")
    if not whole or work is None:
        return None
    return min(max(1 - work / whole, 0.0), 1.0)


def format_duration(seconds: float) -> str:
    """Return a duration in its natural unit, such as `2 min`."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
