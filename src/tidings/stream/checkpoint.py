"""What Spark wrote down of a stream, looked at before Spark does: damage is named, and never read as "nothing yet"."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tidings.errors import InputError

_BATCH = re.compile(r"(\d+)(?:\.compact)?")
_VERSION = re.compile(rb"v\d+")
_NOTHING = b"-"  # what Spark writes for a source that has no offset yet


def stream_id(checkpoint: Path) -> str:
    """What Spark calls the stream whose checkpoint this is; a new checkpoint is a new stream."""
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text("utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(checkpoint, path) from error


def check(checkpoint: Path, last_begun: Callable[[str], int]) -> None:
    """InputError, which names the file and the way out, unless a stream can go on from here.

    `last_begun` tells the last batch that the ledger knows of a stream (-1: none). Spark notes what a batch takes
    before it begins; a checkpoint that knows less has lost something, and the batches it would make up again would
    pass for those that are done.
    """
    logs = {name: log_files(checkpoint / name) for name in ("offsets", "commits", "sources/0")}
    if not any(logs.values()) and not (checkpoint / "metadata").exists():
        return
    begun = last_begun(stream_id(checkpoint))
    for name in logs:
        for file in logs[name].values():
            _check_lines(checkpoint, file)
    last = {name: max(found, default=-1) for name, found in logs.items()}
    if last["offsets"] < (noted := max(begun, last["commits"])):
        raise damaged(checkpoint, checkpoint / "offsets" / str(noted))
    if logs["offsets"]:
        _check_source(checkpoint, last["offsets"], last["sources/0"])


def _check_source(checkpoint: Path, batch: int, last: int) -> None:
    """The files of the last batch must be known; offsets of other sources than files speak for themselves."""
    needed = log_offset(checkpoint, batch)
    if needed is not None and needed > last:
        raise damaged(checkpoint, checkpoint / "sources" / "0" / str(needed))


def check_source(checkpoint: Path, topic: str | None) -> None:
    """InputError if what Spark noted last is of another source than this topic or, without one, than files."""
    last = max(log_files(checkpoint / "offsets"), default=-1)
    told = _last_offset(checkpoint, last)
    if not isinstance(told, dict) or not told:
        return
    topics = sorted(name for name, offset in told.items() if isinstance(offset, dict))
    if topics != ([] if topic is None else [topic]):
        before = f"the Kafka topic {', '.join(topics)}" if topics else "a directory"
        raise InputError(f"{checkpoint}: this state belongs to the posts of {before}; give each source a --state.")


def log_offset(checkpoint: Path, batch: int) -> int | None:
    """The last entry of the log of files that a batch takes; None before the first, and for posts from elsewhere."""
    told = _last_offset(checkpoint, batch)
    found = None if told is None else told.get("logOffset")
    return found if isinstance(found, int) else None


def _last_offset(checkpoint: Path, batch: int) -> Any:
    """Where the source of a stream, its only one, was when a batch began; None where it had nothing yet."""
    path = checkpoint / "offsets" / str(batch)
    line = path.read_bytes().splitlines()[-1] if path.is_file() else _NOTHING
    return None if line == _NOTHING else json.loads(line)


def open_batch(checkpoint: Path) -> int | None:
    """The batch that Spark has noted and not seen done: it is run again."""
    last = max(log_files(checkpoint / "offsets"), default=-1)
    return last if last > last_done(checkpoint) else None


def last_done(checkpoint: Path) -> int:
    """The last batch that Spark has seen done; -1: none."""
    return max(log_files(checkpoint / "commits"), default=-1)


def check_stored(checkpoint: Path, begun: int, unstored: Iterable[int]) -> None:
    """InputError if Spark has seen a batch done that the ledger has not: what it found was kept, and is gone.

    `begun` is the last batch that the ledger knows of (-1: none), `unstored` are those it has not seen done.
    """
    done = last_done(checkpoint)
    lost = min((batch for batch in (*unstored, begun + 1) if batch <= done), default=None)
    if begun >= 0 and lost is not None:
        raise InputError(
            f"{checkpoint.parent / 'found'}: what batch {lost} found was kept here and is gone before it was stored; "
            f"remove {checkpoint} and run again: everything is read anew, and no match is stored twice."
        )


def log_files(folder: Path) -> dict[int, Path]:
    """The files of one of Spark's logs by the batch they are of."""
    found = (path for path in folder.glob("*") if path.is_file())
    numbered = ((match, path) for path in found if (match := _BATCH.fullmatch(path.name)))
    return {int(match[1]): path for match, path in numbered}


def _check_lines(checkpoint: Path, path: Path) -> None:
    """A version, then a JSON value a line."""
    try:
        first, *lines = path.read_bytes().lstrip(b"\0").splitlines()  # Kafka's begins with a zero
        if not _VERSION.fullmatch(first) or not (lines or path.parent.name == "0"):
            raise ValueError(first)
        for line in _told(lines):
            json.loads(line)
    except (OSError, ValueError) as error:
        raise damaged(checkpoint, path) from error


def _told(lines: Iterable[bytes]) -> Iterable[bytes]:
    return (line for line in lines if line.strip() not in (b"", _NOTHING))


def damaged(checkpoint: Path, path: Path) -> InputError:
    """What to say of a file that is not what Spark wrote, with the way out."""
    return InputError(
        f"{path}: this file of the checkpoint is missing or damaged; remove {checkpoint} and run again: "
        "everything is read anew, and no match is stored twice."
    )
