"""Check Spark's checkpoint before Spark reads it: Spark would take a damaged or missing file for "nothing done yet"."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tidings.errors import InputError

_BATCH = re.compile(r"(\d+)(?:\.compact)?")
_VERSION = re.compile(rb"v\d+")
_NO_OFFSET = b"-"  # Spark writes this for a source that has no offset yet


def stream_id(checkpoint: Path) -> str:
    """Return the id that Spark gave the stream; a new checkpoint is a new stream."""
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text("utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise checkpoint_error(checkpoint, path) from error


def check_checkpoint(checkpoint: Path, last_begun: Callable[[str], int]) -> None:
    """Raise InputError, with the file and the remedy, unless the stream can continue from this checkpoint.

    `last_begun` returns the last batch of a stream that the ledger knows (-1: none). Spark records the input of a batch
    before it begins. A checkpoint that knows fewer batches has lost some; their numbers would be used again, and the
    ledger would skip the new batches as committed.
    """
    logs = {name: log_files(checkpoint / name) for name in ("offsets", "commits", "sources/0")}
    if not any(logs.values()) and not (checkpoint / "metadata").exists():
        return
    begun = last_begun(stream_id(checkpoint))
    for files in logs.values():
        for file in files.values():
            _check_log_file(checkpoint, file)
    last = {name: max(files, default=-1) for name, files in logs.items()}
    if last["offsets"] < (known := max(begun, last["commits"])):
        raise checkpoint_error(checkpoint, checkpoint / "offsets" / str(known))
    if logs["offsets"]:
        _check_file_log(checkpoint, last["offsets"], last["sources/0"])


def _check_file_log(checkpoint: Path, batch: int, last_entry: int) -> None:
    """Check that the log has the files of the last batch. Sources other than files do not use this log."""
    needed = log_offset(checkpoint, batch)
    if needed is not None and needed > last_entry:
        raise checkpoint_error(checkpoint, checkpoint / "sources" / "0" / str(needed))


def check_source(checkpoint: Path, topic: str | None) -> None:
    """Raise InputError if the checkpoint belongs to another topic or, without a topic, not to a directory."""
    last = max(log_files(checkpoint / "offsets"), default=-1)
    offset = _last_offset(checkpoint, last)
    if not isinstance(offset, dict) or not offset:
        return
    topics = sorted(name for name, partitions in offset.items() if isinstance(partitions, dict))
    if topics != ([] if topic is None else [topic]):
        owner = f"the Kafka topic {', '.join(topics)}" if topics else "a directory"
        raise InputError(f"{checkpoint}: this state belongs to the posts of {owner}. Use one --state per source.")


def check_committed(checkpoint: Path, last_begun: int, uncommitted: Iterable[int]) -> None:
    """Raise InputError if Spark finished a batch that the ledger has not committed: its spilled results are lost.

    `last_begun` is the last batch in the ledger (-1: none), `uncommitted` are those that it has not committed.
    """
    finished = last_committed(checkpoint)
    lost = min((batch for batch in (*uncommitted, last_begun + 1) if batch <= finished), default=None)
    if last_begun >= 0 and lost is not None:
        raise InputError(
            f"{checkpoint.parent / 'spill'}: the results of batch {lost} were spilled here and are missing. Remove "
            f"{checkpoint} and run again: all posts are read again, and no match is stored twice."
        )


def open_batch(checkpoint: Path) -> int | None:
    """Return the batch that Spark began and did not finish, which it will replay, or None."""
    last = max(log_files(checkpoint / "offsets"), default=-1)
    return last if last > last_committed(checkpoint) else None


def last_committed(checkpoint: Path) -> int:
    """Return the last batch that Spark finished, or -1."""
    return max(log_files(checkpoint / "commits"), default=-1)


def log_offset(checkpoint: Path, batch: int) -> int | None:
    """Return the last entry of the file log that a batch reads; None before batch 0 and for other sources."""
    offset = _last_offset(checkpoint, batch)
    entry = None if offset is None else offset.get("logOffset")
    return entry if isinstance(entry, int) else None


def log_files(folder: Path) -> dict[int, Path]:
    """Return the files of one of Spark's logs by batch."""
    files = (path for path in folder.glob("*") if path.is_file())
    numbered = ((match, path) for path in files if (match := _BATCH.fullmatch(path.name)))
    return {int(match[1]): path for match, path in numbered}


def checkpoint_error(checkpoint: Path, path: Path) -> InputError:
    """Return the error for a missing or damaged file of the checkpoint."""
    return InputError(
        f"{path}: this file of the checkpoint is missing or damaged. Remove {checkpoint} and run again: all posts are "
        "read again, and no match is stored twice."
    )


def _last_offset(checkpoint: Path, batch: int) -> Any:
    """Return the offset of the only source of the stream at the start of a batch; None if it had none."""
    path = checkpoint / "offsets" / str(batch)
    line = path.read_bytes().splitlines()[-1] if path.is_file() else _NO_OFFSET
    return None if line == _NO_OFFSET else json.loads(line)


def _check_log_file(checkpoint: Path, path: Path) -> None:
    """Check that a file has a version and then one JSON value per line."""
    try:
        first, *lines = path.read_bytes().lstrip(b"\0").splitlines()  # Kafka's files begin with a zero byte
        if not _VERSION.fullmatch(first) or not (lines or path.parent.name == "0"):
            raise ValueError(first)
        for line in lines:
            if line.strip() not in (b"", _NO_OFFSET):
                json.loads(line)
    except (OSError, ValueError) as error:
        raise checkpoint_error(checkpoint, path) from error
