"""Watch the inbox, so that the volume estimate knows the posts of all producers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.web.volume_estimate import VolumeEstimator

_SCAN_S = 0.2  # a file stays in the inbox for at least one batch
_SAVE_S = 60.0
_PAUSE_FACTOR = 10  # pause per time of a scan: an inbox without a running stream may become large
_SUFFIX = ".jsonl"


@contextmanager
def inbox_sampler(inbox: Path, estimator: VolumeEstimator) -> Iterator[None]:
    """Sample new files of the inbox inside the block, in a thread."""
    stop = threading.Event()
    known = _list_files(inbox)
    thread = threading.Thread(target=_sample, args=(inbox, estimator, known, stop), daemon=True, name="tidings-sampler")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        estimator.save()


def _sample(inbox: Path, estimator: VolumeEstimator, known: set[str], stop: threading.Event) -> None:
    estimator.load()
    saved_at, pause_s = time.monotonic(), _SCAN_S
    while not stop.wait(pause_s):
        started = time.monotonic()
        present = _list_files(inbox)
        for name in sorted(present - known):
            _sample_file(inbox / name, estimator)
        known = present
        if started - saved_at > _SAVE_S:
            estimator.save()
            saved_at = started
        pause_s = max(_SCAN_S, _PAUSE_FACTOR * (time.monotonic() - started))


def _sample_file(file: Path, estimator: VolumeEstimator) -> None:
    try:
        with file.open("rb") as lines:
            estimator.add_posts(lines)
    except OSError:
        return  # the stream has read and deleted it; a sample can do without


def _list_files(inbox: Path) -> set[str]:
    try:
        return {name for name in os.listdir(inbox) if name.endswith(_SUFFIX) and not name.startswith(".")}
    except OSError:
        return set()
