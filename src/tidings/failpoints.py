"""Failpoints: named places where a test can stop the program as a crash would.

`TIDINGS_FAILPOINT=before-commit@3` kills the process (SIGKILL, no cleanup) when batch 3 reaches `before-commit`;
`before-commit@any` kills it at the first batch. In one process, `arm` raises an exception there instead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

BATCH_FAILPOINTS = (
    "before-read",
    "after-read",
    "before-match",
    "after-match",
    "before-write",
    "after-write",
    "before-commit",
    "after-commit",
    "before-checkpoint",
    "after-checkpoint",
)
SPILL_FAILPOINTS = ("after-spill",)
CORRELATION_FAILPOINTS = ("before-correlate", "before-track", "after-track")
PLAN_FAILPOINTS = ("before-switch", "after-switch")
SLICE_FAILPOINTS = ("during-slice",)
CRAWL_FAILPOINTS = ("before-store-articles", "after-store-articles", "before-put-articles", "after-put-articles")
VARIABLE = "TIDINGS_FAILPOINT"
_ALL = {
    *BATCH_FAILPOINTS,
    *SPILL_FAILPOINTS,
    *CORRELATION_FAILPOINTS,
    *PLAN_FAILPOINTS,
    *SLICE_FAILPOINTS,
    *CRAWL_FAILPOINTS,
}


class FailpointReached(Exception):
    """Raised at an armed failpoint. Only tests see it."""


@dataclass
class ArmedFailpoint:
    """A failpoint that raises. `batch` None: in every batch."""

    name: str
    batch: int | None
    error: type[Exception]
    is_reached: bool = False


_armed: list[ArmedFailpoint] = []


@contextmanager
def arm(name: str, batch: int | None = None, error: type[Exception] = FailpointReached) -> Iterator[ArmedFailpoint]:
    """Raise `error` at a failpoint of this process, in one batch or (None) in every batch."""
    _check_name(name)
    armed = ArmedFailpoint(name, batch, error)
    _armed.append(armed)
    try:
        yield armed
    finally:
        _armed.remove(armed)


def failpoint(name: str, batch: int) -> None:
    """Mark a failpoint. Does nothing unless the environment or `arm` names it."""
    _check_name(name)
    if os.environ.get(VARIABLE) in (f"{name}@{batch}", f"{name}@any"):
        os.kill(os.getpid(), signal.SIGKILL)
    for armed in _armed:
        if armed.name == name and armed.batch in (None, batch):
            armed.is_reached = True
            raise armed.error(f"{name}@{batch}")


def _check_name(name: str) -> None:
    if name not in _ALL:
        raise ValueError(f"failpoint {name!r}: unknown. Choose one of {', '.join(sorted(_ALL))}.")
