"""`tidings run` in a process of its own, for as long as a benchmark needs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LINES_KEPT = 20  # of what the stream says last


class Streaming:
    """A running `tidings run` whose temporary files lie in `folder` too, so that what it leaves there is seen."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.posts, self.state, self.temporary = (folder / name for name in ("posts", "state", "tmp"))
        for place in (self.posts, self.state, self.temporary):
            place.mkdir(parents=True, exist_ok=True)
        where = ("--posts", str(self.posts), "--state", str(self.state))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidings.cli.main", "run", *where, *options],
            env={**os.environ, "TMPDIR": str(self.temporary), "SPARK_LOCAL_DIRS": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        threading.Thread(target=self._listen, name="listener", daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            self.said = [*self.said[-_LINES_KEPT + 1 :], line.strip()]

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def places(self) -> dict[str, Path]:
        """Folders it writes to or deletes from, by what lies there."""
        index, checkpoint = self.state / "index", self.state / "checkpoint"
        return {"index": index, "checkpoint": checkpoint, "posts": self.posts, "temporary": self.temporary}

    def stop(self) -> int:
        """Ask it to stop if it still runs; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def streaming(folder: Path, options: Sequence[str]) -> Iterator[Streaming]:
    """A stream that does not outlive us."""
    stream = Streaming(folder, options)
    try:
        yield stream
    finally:
        if stream.runs:
            os.killpg(stream.process.pid, signal.SIGKILL)
            stream.process.wait()
