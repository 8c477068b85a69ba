"""Files that two queries read, the matching and the correlating, are deleted when both are done with them.

Spark deletes a file when the query is done that was told to, whatever other query still has to read it; so neither is
told to, and it is done here, by what Spark notes of both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tidings.stream.checkpoint import last_done, log_files, log_offset
from tidings.stream.options import Say
from tidings.stream.source_log import noted

_EVERY_S = 10.0


class TwiceTaken:
    """The files that batches of all these streams took which are done."""

    def __init__(self, *checkpoints: Path) -> None:
        self._streams = [_Done(checkpoint) for checkpoint in checkpoints]

    def delete(self) -> int:
        """Delete those that are new; how many there were. One that is gone already is no mistake."""
        for stream in self._streams:
            stream.follow()
        done = set.intersection(*(stream.files for stream in self._streams))
        for file in done:
            file.unlink(missing_ok=True)
            for stream in self._streams:
                stream.files.remove(file)
        return len(done)


class _Done:
    """The files that one stream is done with and which are not deleted yet."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._until = -1  # the last entry of Spark's log of files that is among them
        self.files: set[Path] = set()

    def follow(self) -> None:
        last = log_offset(self._checkpoint, last_done(self._checkpoint))
        if last is None or last == self._until:
            return
        for number, path in log_files(self._checkpoint / "sources" / "0").items():
            if number > self._until:  # a compact file has all entries before it too
                self.files.update(Path(name) for entry, name in noted(path) if self._until < entry <= last)
        self._until = last


@contextmanager
def deleting(beside: AbstractContextManager[None], files: TwiceTaken, say: Say) -> Iterator[None]:
    """Now and then while what is `beside` runs, and when it has ended: then both queries are done."""
    ended = threading.Event()

    def delete() -> None:
        try:
            files.delete()
        except (OSError, ValueError, KeyError) as error:  # being compacted, damaged, or not ours to delete
            say(f"files that were taken cannot be deleted, and it is tried again: {error}")

    def repeat() -> None:
        while not ended.wait(_EVERY_S):
            delete()

    thread = threading.Thread(target=repeat, name="tidings-delete", daemon=True)
    thread.start()
    try:
        with beside:
            yield
    finally:
        ended.set()
        thread.join()
        delete()
