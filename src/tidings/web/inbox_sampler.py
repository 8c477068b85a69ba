"""Watching the inbox, so that the history knows what came, whoever put it there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.web.volume_estimate import History

_LOOK_S = 0.2  # a file stays there for a batch at least
_SAVE_S = 60.0
_REST = 10  # times what a look took: an inbox that nobody empties may grow large
_SUFFIX = ".jsonl"


@contextmanager
def gathered(inbox: Path, history: History) -> Iterator[None]:
    """The history follows the inbox inside, in a thread of its own."""
    stop = threading.Event()
    known = _names(inbox)
    thread = threading.Thread(target=_gather, args=(inbox, history, known, stop), daemon=True, name="tidings-gather")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        history.save()


def _gather(inbox: Path, history: History, known: set[str], stop: threading.Event) -> None:
    history.load()
    saved_at, wait_s = time.monotonic(), _LOOK_S
    while not stop.wait(wait_s):
        began = time.monotonic()
        present = _names(inbox)
        for name in sorted(present - known):
            _take(inbox / name, history)
        known = present
        if began - saved_at > _SAVE_S:
            history.save()
            saved_at = began
        wait_s = max(_LOOK_S, _REST * (time.monotonic() - began))


def _take(file: Path, history: History) -> None:
    try:
        with file.open("rb") as lines:
            history.take(lines)
    except OSError:
        return  # taken by the stream and deleted: a sample can do without


def _names(inbox: Path) -> set[str]:
    try:
        return {name for name in os.listdir(inbox) if name.endswith(_SUFFIX) and not name.startswith(".")}
    except OSError:
        return set()
