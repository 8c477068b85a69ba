"""The files a batch takes, as Spark noted them before it began. Spark passes over one that is gone; we do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidings.errors import InputError
from tidings.stream.checkpoint import damaged, log_offset


def taken_files(checkpoint: Path, batch: int) -> list[Path]:
    """All files of a batch, none where posts come from elsewhere; InputError names one that is not there any more."""
    last = log_offset(checkpoint, batch)
    if last is None:
        return []
    before = log_offset(checkpoint, batch - 1)
    entries = range(-1 if before is None else before, last)
    files = [file for entry in entries for file in _of_entry(checkpoint, entry + 1)]
    for file in files:
        if not file.is_file():
            raise _gone(file, batch, checkpoint)
    return files


def _of_entry(checkpoint: Path, number: int) -> list[Path]:
    """The files of one entry of Spark's log, which may lie in a compact file with all those before it."""
    folder = checkpoint / "sources" / "0"
    for path in (folder / str(number), folder / f"{number}.compact"):
        if path.is_file():
            return [Path(name) for entry, name in noted(path) if entry == number]
    raise damaged(checkpoint, folder / str(number))


def noted(path: Path) -> Iterator[tuple[int, str]]:
    """The entries of one of the log's files: a number, and a file that was taken with it."""
    for line in path.read_text("utf-8").splitlines()[1:]:
        entry = json.loads(line)
        yield entry["batchId"], unquote(urlsplit(entry["path"]).path)


def _gone(file: Path, batch: int, checkpoint: Path) -> InputError:
    return InputError(
        f"{file}: this file was taken for batch {batch} and is gone before it was matched; put it back and run again, "
        f"or, to go on without it, remove {checkpoint}: what is still there is read anew, and no match is stored twice."
    )
