"""Publish results atomically: write to a hidden folder next to OUT, then rename. Does not use Spark.

with Output(out, overwrite).staging() as staging:
    ...                  # Spark writes to staging.parts, Python to staging.rejected
    staging.publish()    # creates OUT; without this call nothing remains
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tidings.errors import InputError, OutputError
from tidings.schemas import MATCH_FIELDS

_FORMATS = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv"}
_COPY_BYTES = 1 << 20
_DELETE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Output:
    """A destination: one JSON Lines or CSV file, by its suffix, or a Parquet directory."""

    out: Path
    overwrite: bool = False
    fields: tuple[str, ...] = MATCH_FIELDS  # the header of a CSV file
    raw_csv: bool = False  # do not neutralize texts that a spreadsheet would run

    @property
    def format(self) -> str:
        return _FORMATS.get(self.out.suffix.lower(), "parquet")

    @property
    def rejected_file(self) -> Path:
        return self.out.with_name(self.out.name + ".rejected.jsonl")

    def check(self, *inputs: Path) -> None:
        """Raise InputError if OUT cannot be written. Fast, so that commands call it before any work."""
        if "://" in str(self.out) or str(self.out).startswith(("s3:/", "hdfs:/")):
            raise InputError(f"{self.out}: not a local path. Choose a path on this machine.")
        if ":" in str(self.out.absolute()):
            raise InputError(f"{self.out}: Spark cannot write to a path with a colon. Choose another OUT.")
        if self.out.suffix.lower() in (".gz", ".zst", ".bz2", ".zip"):
            raise InputError(
                f"{self.out}: compressed output is not supported. Use .jsonl, .csv, or no suffix for Parquet."
            )
        self._check_folder()
        for input_path in inputs:
            if self._would_replace(input_path):
                raise InputError(f"{self.out}: OUT would replace the input {input_path}. Choose another OUT.")
        for path in () if self.overwrite else (self.out, self.rejected_file):
            if os.path.lexists(path):
                raise InputError(f"{path}: already exists. Choose another OUT or add --overwrite.")

    def _check_folder(self) -> None:
        folder = self.out.absolute().parent
        if not self.out.name:
            raise InputError(f"{self.out}: this directory cannot be replaced. Choose another OUT.")
        if not folder.is_dir():
            raise InputError(f"{folder}: no such directory. Create it or choose another OUT.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{folder}: no permission to write to this directory. Choose another OUT.")

    def _would_replace(self, path: Path) -> bool:
        out, other = self.out.resolve(), path.resolve()
        return out == other or out in other.parents or self.rejected_file.resolve() == other

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        """Create a staging folder and delete it at the end, also after an error."""
        folder = self.out.absolute().parent / f".{self.out.name}.tidings-{os.getpid()}"
        try:
            _delete_folder(folder)
            folder.mkdir()
            yield Staging(self, folder)
        except OSError as error:
            raise output_error(error, self.out) from error
        finally:
            _delete_folder(folder)


@dataclass(frozen=True, slots=True)
class Staging:
    """The hidden folder. It is on the same disk as OUT, so that a rename suffices."""

    output: Output
    folder: Path

    @property
    def parts(self) -> Path:
        return self.folder / "parts"

    @property
    def rejected(self) -> Path:
        return self.folder / "rejected"

    def publish(self) -> tuple[int, Path | None]:
        """Move OUT and the list of rejected rows into place; return the number of matches and the list, if any."""
        result, matches = self._count_parquet() if self.output.format == "parquet" else self._join_parts()
        self._replace(result, self.output.out)
        if self.rejected.exists():
            self._replace(self.rejected, self.output.rejected_file)
            return matches, self.output.rejected_file
        self._set_aside(self.output.rejected_file)
        return matches, None

    def _replace(self, new: Path, final: Path) -> None:
        self._set_aside(final)
        new.rename(final)

    def _set_aside(self, old: Path) -> None:
        """Move an old result to the staging folder, which is deleted later; `check` allowed replacing it."""
        if os.path.lexists(old):
            old.rename(self.folder / f"old-{old.name}")

    def _count_parquet(self) -> tuple[Path, int]:
        """Return the Parquet directory without Spark's checksum files, and the rows according to its footers."""
        for checksum in self.parts.glob(".*.crc"):
            checksum.unlink()
        return self.parts, sum(pq.read_metadata(part).num_rows for part in self.parts.glob("part-*"))

    def _join_parts(self) -> tuple[Path, int]:
        """Join all parts to one file. Each part is deleted once copied, so that little is on the disk twice."""
        joined, records = self.folder / "joined", RecordCounter(quotes=self.output.format == "csv")
        with joined.open("wb") as target:
            if self.output.format == "csv":
                target.write((",".join(self.output.fields) + "\n").encode())
            for part in sorted(self.parts.glob("part-*")):
                with part.open("rb") as source:
                    while chunk := source.read(_COPY_BYTES):
                        records.add(chunk)
                        target.write(chunk)
                part.unlink()
        return joined, records.count


class RecordCounter:
    """Counts records in a stream of bytes. With `quotes` (CSV), line ends in quoted fields do not count."""

    def __init__(self, quotes: bool) -> None:
        self.count = 0
        self._quotes = quotes
        self._in_quotes = False

    def add(self, chunk: bytes) -> None:
        if not self._quotes:
            self.count += chunk.count(b"\n")
            return
        for number, piece in enumerate(chunk.split(b'"')):
            self._in_quotes ^= number > 0
            self.count += 0 if self._in_quotes else piece.count(b"\n")


def _delete_folder(folder: Path) -> None:
    """Delete a folder. Tasks of a stopped session may write to it for a moment, so try for some seconds."""
    end = time.monotonic() + _DELETE_TIMEOUT_S
    shutil.rmtree(folder, ignore_errors=True)
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def output_error(error: OSError, out: Path) -> OutputError:
    """Return the OutputError for a failure of the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return OutputError(f"{out}: no space left on the device. No partial result was left.")
    return OutputError(f"{out}: could not be written ({error.strerror or error}). No partial result was left.")
