"""Delete input files that two queries read, the matching and the correlations, when both have committed them.

Spark's own `cleanSource` deletes a file when one query is done with it, although the other may still have to read it.
So it is off for both, and the files are deleted here according to Spark's logs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.log import Event
from tidings.stream.checkpoint import last_committed, log_files, log_offset
from tidings.stream.source_log import read_log_file

LOG = logging.getLogger("tidings.stream")
_INTERVAL_S = 10.0


class SharedSourceCleaner:
    """Deletes the files that all of these streams have committed."""

    def __init__(self, *checkpoints: Path) -> None:
        self._streams = [_CommittedFiles(checkpoint) for checkpoint in checkpoints]

    def delete(self) -> int:
        """Delete newly committed files; return their number. Missing files are ignored."""
        for stream in self._streams:
            stream.update()
        committed = set.intersection(*(stream.files for stream in self._streams))
        for file in committed:
            file.unlink(missing_ok=True)
            for stream in self._streams:
                stream.files.remove(file)
        return len(committed)


class _CommittedFiles:
    """The files that one stream has committed and that are not deleted yet."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._last_entry = -1  # of Spark's file log
        self.files: set[Path] = set()

    def update(self) -> None:
        last = log_offset(self._checkpoint, last_committed(self._checkpoint))
        if last is None or last == self._last_entry:
            return
        for number, path in log_files(self._checkpoint / "sources" / "0").items():
            if number > self._last_entry:  # a compact log contains all entries before it too
                entries = read_log_file(path)
                self.files.update(Path(name) for entry, name in entries if self._last_entry < entry <= last)
        self._last_entry = last


@contextmanager
def cleanup_loop(cleaner: SharedSourceCleaner) -> Iterator[None]:
    """Delete files periodically, and once more at the end, when both queries have stopped."""
    is_done = threading.Event()

    def delete() -> None:
        try:
            cleaner.delete()
        except (OSError, ValueError, KeyError) as error:  # compacted at this moment, damaged, or no permission
            LOG.warning(Event("source cleanup failed", error=error, retry_s=round(_INTERVAL_S)))

    def run() -> None:
        while not is_done.wait(_INTERVAL_S):
            delete()

    thread = threading.Thread(target=run, name="tidings-source-cleanup", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
        delete()
