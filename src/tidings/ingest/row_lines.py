"""Find the line of a row that Spark read from a file, to report a rejected row.

Spark numbers rows, not lines: it reads a large file in splits, skips blank lines, and a line may have several rows. A
finder reads the file once, up to the last row that is asked for. Rows of a split should be asked for in order.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol, cast

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_MAX_FIELD_CHARACTERS = 1 << 24
_MAX_OPEN_FILES = 64


class RowFinder(Protocol):
    """Finds lines in one file."""

    def line_of(self, split: int, row: int) -> int | None:
        """Return the line, from 1, of a row, from 0, of the split that begins at an offset; None if it is missing."""
        ...

    def close(self) -> None: ...


class RowLines:
    """The lines of rows in files of one format: `json`, `csv`, or `parquet`, which has rows instead of lines."""

    def __init__(self, file_format: str) -> None:
        self._format = file_format
        self._finders: dict[Path, RowFinder] = {}

    def line_of(self, file: Path, split: int, row: int) -> int | None:
        """Return the line (of Parquet the row), from 1; None if the file cannot be read any more."""
        if self._format == "parquet":
            return row + 1
        with suppress(OSError, EOFError, csv.Error):
            return self._finder(file).line_of(split, row)
        return None

    def _finder(self, file: Path) -> RowFinder:
        if file not in self._finders:
            if len(self._finders) >= _MAX_OPEN_FILES:
                self.close()
            self._finders[file] = JsonLines(file) if self._format == "json" else CsvRecords(file)
        return self._finders[file]

    def close(self) -> None:
        for finder in self._finders.values():
            finder.close()
        self._finders.clear()


class JsonLines:
    """Rows of JSON Lines, as Spark reads them."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._content = _open(file)
        self._rewind()

    def _rewind(self) -> None:
        self._content.seek(0)
        self._pieces = _iter_lines(self._content)
        self._split = self._offset = self._line = self._rows = 0  # offset of the next line, lines and rows read
        self._last = (0, 0)

    def line_of(self, split: int, row: int) -> int | None:
        if (split, row) < self._last:
            self._rewind()
        self._last = (split, row)
        if split != self._split:
            self._skip_to(split)
        while self._rows <= row:
            if (line := self._next()) is None:
                return None
            self._rows += count_json_rows(line)
        return self._line

    def _skip_to(self, split: int) -> None:
        """Begin a split: a line that begins at its offset still belongs to the split before."""
        while self._offset <= split and self._next() is not None:
            pass
        self._split, self._rows = split, 0

    def _next(self) -> bytes | None:
        line = next(self._pieces, None)
        if line is not None:
            self._offset += len(line)
            self._line += 1
        return line

    def close(self) -> None:
        self._content.close()


class CsvRecords:
    """Rows of a CSV file with a header; a record may take several lines, of which the first is returned."""

    def __init__(self, file: Path) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD_CHARACTERS))
        self._path = file
        self._content = _open(file)
        self._rewind()

    def _rewind(self) -> None:
        self._content.seek(0)
        text = (line.decode("utf-8", "replace") for line in _iter_lines(self._content))
        self._records = csv.reader(text)
        self._rows = -1  # the header
        self._line = 0

    def line_of(self, split: int, row: int) -> int | None:
        if row < self._rows - 1:
            self._rewind()
        while self._rows <= row:
            self._line = self._records.line_num + 1
            record = next(self._records, None)
            if record is None:
                return None
            self._rows += bool(record)
        return self._line

    def close(self) -> None:
        self._content.close()


def count_json_rows(line: bytes) -> int:
    """Return how many rows Spark makes of a line: none of a blank one, one for each object of a list of objects."""
    text = line.removeprefix(_BOM).strip(_BLANK)
    if not text.startswith(b"["):
        return 1 if text else 0
    try:
        value, _ = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return 1
    return len(value) if all(isinstance(item, dict) for item in value) else 1


def _open(file: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file, "rb")) if file.suffix.lower() == ".gz" else file.open("rb")


def _iter_lines(content: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their ends: CR, LF or both."""
    for line in content:
        if b"\r" in line[:-2]:
            yield from line.splitlines(keepends=True)
        else:
            yield line
