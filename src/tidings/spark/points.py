"""Places in the life of a batch where a test can have the process killed: what a crash would break breaks there."""

from __future__ import annotations

import os
import signal

POINTS = (
    "before reading",
    "after reading",
    "before matching",
    "after matching",
    "before writing",
    "after writing",
    "before committing",
    "after committing",
    "before checkpointing",
    "after checkpointing",
)
VARIABLE = "TIDINGS_CRASH"  # "POINT@BATCH", as in "after writing@3"


def reached(point: str, batch: int) -> None:
    """Called at each point; kills the process (not even cleaning up) where the environment says so."""
    assert point in POINTS
    if os.environ.get(VARIABLE) == f"{point}@{batch}":
        os.kill(os.getpid(), signal.SIGKILL)
