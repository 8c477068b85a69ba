"""Where the result goes, all or nothing: written into a hidden folder beside OUT, then renamed. No Spark in here.

with Output(out, overwrite).staged() as staging:
    ...                             # Spark writes its parts into staging.parts, Python into staging.rejected
    staging.publish()               # now OUT exists, whole; without this call nothing is left behind
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tidings.errors import InputError, OutputError
from tidings.schemas import MATCH_FIELDS

_FORMATS = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv"}
_COPIED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """A destination: a Parquet directory, or one JSON Lines or CSV file by its suffix."""

    out: Path
    overwrite: bool = False
    fields: tuple[str, ...] = MATCH_FIELDS  # the header of a CSV file

    @property
    def format(self) -> str:
        return _FORMATS.get(self.out.suffix.lower(), "parquet")

    @property
    def rejected_file(self) -> Path:
        return self.out.with_name(self.out.name + ".rejected.jsonl")

    def check(self, *inputs: Path) -> None:
        """InputError when OUT cannot be written there; quick, so that it can be asked before anything is computed."""
        if "://" in str(self.out) or str(self.out).startswith(("s3:/", "hdfs:/")):
            raise InputError(f"{self.out}: OUT must be a path of this machine.")
        if ":" in str(self.out.absolute()):
            raise InputError(f"{self.out}: Spark cannot write to a path with a colon; choose another OUT.")
        if self.out.suffix.lower() in (".gz", ".zst", ".bz2", ".zip"):
            raise InputError(f"{self.out}: OUT cannot be compressed; name it .jsonl or .csv, or anything for Parquet.")
        self._check_folder()
        for input_path in inputs:
            if self._holds(input_path):
                raise InputError(f"{self.out}: OUT would replace {input_path}, which is read; choose another OUT.")
        for path in () if self.overwrite else (self.out, self.rejected_file):
            if os.path.lexists(path):
                raise InputError(f"{path}: this exists already; choose another OUT or add --overwrite.")

    def _check_folder(self) -> None:
        folder = self.out.absolute().parent
        if not self.out.name:
            raise InputError(f"{self.out}: this is a directory that cannot be replaced; choose another OUT.")
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such directory; make it first or choose another OUT.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{folder}: no permission to write into this directory; choose another OUT.")

    def _holds(self, path: Path) -> bool:
        out, other = self.out.resolve(), path.resolve()
        return out == other or out in other.parents or self.rejected_file.resolve() == other

    @contextmanager
    def staged(self) -> Iterator[Staging]:
        """A staging folder that is gone afterwards, whatever happened."""
        folder = self.out.absolute().parent / f".{self.out.name}.tidings-{os.getpid()}"
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            yield Staging(self, folder)
        except OSError as error:
            raise output_error(error, self.out) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Staging:
    """The hidden folder, on the same disk as OUT, so that renaming is enough."""

    output: Output
    folder: Path

    @property
    def parts(self) -> Path:
        return self.folder / "parts"

    @property
    def rejected(self) -> Path:
        return self.folder / "rejected"

    def publish(self) -> tuple[int, Path | None]:
        """Bring OUT and the list of rejected rows into place: how many matches, and that list if there is one."""
        whole, matches = self._counted() if self.output.format == "parquet" else self._joined()
        self._replace(whole, self.output.out)
        if self.rejected.exists():
            self._replace(self.rejected, self.output.rejected_file)
            return matches, self.output.rejected_file
        self._set_aside(self.output.rejected_file)
        return matches, None

    def _replace(self, new: Path, final: Path) -> None:
        self._set_aside(final)
        new.rename(final)

    def _set_aside(self, old: Path) -> None:
        """What is replaced goes with the staging folder; only `check` allowed it to be there."""
        if os.path.lexists(old):
            old.rename(self.folder / f"old-{old.name}")

    def _counted(self) -> tuple[Path, int]:
        """The Parquet directory as Spark left it, without its checksums, and the rows its footers tell."""
        for checksum in self.parts.glob(".*.crc"):
            checksum.unlink()
        return self.parts, sum(pq.read_metadata(part).num_rows for part in self.parts.glob("part-*"))

    def _joined(self) -> tuple[Path, int]:
        """All parts as one file; each part goes as soon as it is copied, so that the disk holds little twice."""
        whole, records = self.folder / "whole", RecordCounter(quotes=self.output.format == "csv")
        with whole.open("wb") as target:
            if self.output.format == "csv":
                target.write((",".join(self.output.fields) + "\n").encode())
            for part in sorted(self.parts.glob("part-*")):
                with part.open("rb") as source:
                    while chunk := source.read(_COPIED_BYTES):
                        records.take(chunk)
                        target.write(chunk)
                part.unlink()
        return whole, records.count


class RecordCounter:
    """Counts records in passing. With `quotes`, as in CSV, a line end between quotation marks ends no record."""

    def __init__(self, quotes: bool) -> None:
        self.count = 0
        self._quotes = quotes
        self._is_inside = False

    def take(self, chunk: bytes) -> None:
        if not self._quotes:
            self.count += chunk.count(b"\n")
            return
        for at, piece in enumerate(chunk.split(b'"')):
            self._is_inside ^= at > 0
            self.count += 0 if self._is_inside else piece.count(b"\n")


def output_error(error: OSError, out: Path) -> OutputError:
    """One sentence for a failure of the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return OutputError(f"{out}: there is no space left to write it; nothing half-written was left behind.")
    return OutputError(f"{out}: it could not be written ({error.strerror or error}); nothing was left behind.")
