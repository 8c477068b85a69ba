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
KEEPING_POINTS = ("after keeping",)  # of what is stored while the next batch is matched
CORRELATE_POINTS = ("before correlating", "before tracking", "after tracking")  # of a batch of correlations
SWITCH_POINTS = ("before switching", "after switching")  # to a plan that was learned meanwhile
CRAWL_POINTS = (
    "before storing articles",
    "after storing articles",
    "before putting articles",
    "after putting articles",
)
VARIABLE = "TIDINGS_CRASH"  # "POINT@BATCH", as in "after writing@3"; "POINT@any" is the first such point


def failpoint(point: str, batch: int) -> None:
    """Called at each point; kills the process (not even cleaning up) where the environment says so."""
    assert point in (*POINTS, *KEEPING_POINTS, *CORRELATE_POINTS, *SWITCH_POINTS, *CRAWL_POINTS)
    if os.environ.get(VARIABLE) in (f"{point}@{batch}", f"{point}@any"):
        os.kill(os.getpid(), signal.SIGKILL)
