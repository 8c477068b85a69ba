"""The phase of the stream as clients see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tidings.stream.phase import read_phase

ShownPhase = Literal["starting", "running", "stopping", "stopped", "external"]


def external_phase() -> ShownPhase:
    """Return the phase of a stream that another machine may run: this one cannot know what it does."""
    return "external"


def phase_reader(work_dir: Path, is_alive: Callable[[], bool] | None) -> Callable[[], ShownPhase]:
    """Return a function that reads the phase of the stream of a work directory.

    `is_alive` tells whether the stream that this server runs has a process, which takes a while to report its phase.
    A server without a stream (None) sees one only if it uses the same directory.
    """

    def read() -> ShownPhase:
        phase = read_phase(work_dir)
        if phase is not None and phase.phase != "stopped":
            return phase.phase
        if is_alive is None:
            return external_phase()
        return "starting" if is_alive() else "stopped"

    return read
