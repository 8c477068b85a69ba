"""`tidings serve` with its stream in a separate process for the duration of a benchmark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

_LINES_KEPT = 20  # last lines of its output
_URL = re.compile(r"http://127\.0\.0\.1:\d+")


class StreamProcess:
    """A `tidings serve` process; its temporary files are in `folder` too, so that leftovers are counted.

    `options` are those of `serve`, `run_settings` the section `run` of its configuration file.
    """

    def __init__(self, folder: Path, options: Sequence[str], run_settings: Mapping[str, str]) -> None:
        self.posts, self.state, self.temporary = (folder / name for name in ("posts", "state", "tmp"))
        for folder_path in (self.posts, self.state, self.temporary):
            folder_path.mkdir(parents=True, exist_ok=True)
        config = folder / "tidings.toml"
        config.write_text(
            "\n".join(["[run]", *(f"{name} = {json.dumps(value)}" for name, value in run_settings.items())])
        )
        paths = ("--inbox", str(self.posts), "--state", str(self.state), "--config", str(config))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidings.cli.main", "serve", "--bind", "127.0.0.1:0", *paths, *options],
            env={**os.environ, "TMPDIR": str(self.temporary), "SPARK_LOCAL_DIRS": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output_lines: list[str] = []
        self.url: str | None = None  # of the service, once it is printed
        threading.Thread(target=self._read_output, name="output-reader", daemon=True).start()

    def _read_output(self) -> None:
        for line in self.process.stdout or ():
            self.output_lines = [*self.output_lines[-_LINES_KEPT + 1 :], line.strip()]
            if self.url is None and (found := _URL.search(line)):
                self.url = found.group()

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
def stream_process(
    folder: Path, options: Sequence[str] = (), run_settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[StreamProcess]:
    """A service with a stream that is killed at the latest on exit."""
    stream = StreamProcess(folder, options, run_settings)
    try:
        yield stream
    finally:
        if stream.is_running:
            os.killpg(stream.process.pid, signal.SIGKILL)
            stream.process.wait()
