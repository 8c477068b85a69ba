"""`tidings run` in a separate process for the duration of a benchmark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LINES_KEPT = 20  # last lines of its output


class StreamProcess:
    """A `tidings run` process; its temporary files are in `folder` too, so that leftovers are counted."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.posts, self.state, self.temporary = (folder / name for name in ("posts", "state", "tmp"))
        for folder_path in (self.posts, self.state, self.temporary):
            folder_path.mkdir(parents=True, exist_ok=True)
        paths = ("--posts", str(self.posts), "--state", str(self.state))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidings.cli.main", "run", *paths, *options],
            env={**os.environ, "TMPDIR": str(self.temporary), "SPARK_LOCAL_DIRS": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output_lines: list[str] = []
        threading.Thread(target=self._read_output, name="output-reader", daemon=True).start()

    def _read_output(self) -> None:
        for line in self.process.stdout or ():
            self.output_lines = [*self.output_lines[-_LINES_KEPT + 1 :], line.strip()]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def folders(self) -> dict[str, Path]:
        """Return the folders it writes to or deletes from, by content."""
        index, checkpoint = self.state / "index", self.state / "checkpoint"
        return {"index": index, "checkpoint": checkpoint, "posts": self.posts, "temporary": self.temporary}

    def stop(self) -> int:
        """Stop the process and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def stream_process(folder: Path, options: Sequence[str]) -> Iterator[StreamProcess]:
    """A stream that is killed at the latest on exit."""
    stream = StreamProcess(folder, options)
    try:
        yield stream
    finally:
        if stream.is_running:
            os.killpg(stream.process.pid, signal.SIGKILL)
            stream.process.wait()
