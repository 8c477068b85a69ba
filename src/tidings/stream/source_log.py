"""Read from Spark's log which files a batch reads. Spark silently skips a missing file; Tidings reports it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidings.errors import InputError
from tidings.spark.post_reader import local_path
from tidings.stream.checkpoint import checkpoint_error, log_offset


def files_of_batch(checkpoint: Path, batch: int) -> list[Path]:
    """Return the files that Spark assigned to a batch; none if posts do not come from files."""
    last = log_offset(checkpoint, batch)
    if last is None:
        return []
    previous = log_offset(checkpoint, batch - 1)
    first = 0 if previous is None else previous + 1
    return [file for entry in range(first, last + 1) for file in _files_of_entry(checkpoint, entry)]


def check_files_exist(checkpoint: Path, batch: int, files: Iterable[Path]) -> None:
    """Raise InputError if a file of a batch is missing."""
    for file in files:
        if not file.is_file():
            raise InputError(
                f"{file}: this file of batch {batch} is missing and was not matched yet. Put it back and run again. To "
                f"continue without it, remove {checkpoint}: all other files are read again, no match is stored twice."
            )


def read_log_file(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (entry, file name) for every line of a log file."""
    for line in path.read_text("utf-8").splitlines()[1:]:
        entry = json.loads(line)
        yield entry["batchId"], local_path(entry["path"])


def _files_of_entry(checkpoint: Path, number: int) -> list[Path]:
    """Return the files of one entry. A compact log file also contains all entries before it."""
    folder = checkpoint / "sources" / "0"
    for path in (folder / str(number), folder / f"{number}.compact"):
        if path.is_file():
            return [Path(name) for entry, name in read_log_file(path) if entry == number]
    raise checkpoint_error(checkpoint, folder / str(number))
