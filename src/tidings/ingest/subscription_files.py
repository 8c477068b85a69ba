"""Read files of subscriptions into one Arrow table. Invalid lines are rejected and do not stop the reading.

The suffix (also with ``.gz``) determines the format: ``.jsonl``, ``.ndjson``, ``.json`` have one JSON object per line;
``.csv`` has a header; ``.parquet`` is a file or a directory; any other is text with one query per line, whose id is the
line number.

Ids keep their type and value: CSV ids stay text (``007``), JSON integers become int64, or decimals of 38 digits if one
is larger. A JSON file with both integers and strings, or with an integer of more than 38 digits, gets string ids,
because a column has one type.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from decimal import Decimal
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.errors import InputError
from tidings.ingest.subscription_table import from_table
from tidings.ingest.validation import missing_field, not_utf8
from tidings.query.geo.column import parse_region
from tidings.schemas import REGION_TYPE, RejectedSubscription, SubscriptionFile

__all__ = ["from_table", "read_subscriptions"]

_COLUMNS = ("id", "query", "owner", "region")
_UTF16 = "UTF-16, not UTF-8"
_OTHER_FORMATS = {b"PAR1": "Parquet, but is not named .parquet", b"\xff\xfe": _UTF16, b"\xfe\xff": _UTF16}


def read_subscriptions(path: str | Path) -> SubscriptionFile:
    """Return the valid and the rejected subscriptions of a file. Raise InputError if the file cannot be read."""
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    try:
        if path.is_dir() or suffixes[-1:] == [".parquet"]:
            return from_table(_read_parquet(path))
        text = _read_text(path)
        if kind in (".jsonl", ".ndjson", ".json"):
            return _SubscriptionRows().read_json_lines(text)
        return _SubscriptionRows().read_csv(text) if kind == ".csv" else _read_plain(text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_text(path: Path) -> str:
    """Return the content; bytes that are not UTF-8 become lone surrogates, so that their lines are rejected later."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"the gzip file is damaged ({error}).") from error
    for magic, name in _OTHER_FORMATS.items():
        if content.startswith(magic):
            raise InputError(f"the file is {name}.")
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _read_parquet(path: Path) -> pa.Table:
    files = [path] if path.is_file() else sorted(_visible_parquet(path))
    if not files:
        raise InputError("the directory has no Parquet files." if path.is_dir() else "no such file.")
    try:
        present = [name for name in _COLUMNS if name in pq.read_schema(files[0]).names]
        return pa.concat_tables(pq.read_table(file, columns=present or None, partitioning=None) for file in files)
    except pa.ArrowException as error:
        raise InputError(f"cannot be read as Parquet ({str(error).splitlines()[0]}).") from error


def _visible_parquet(directory: Path) -> Iterator[Path]:
    """Yield the Parquet files below, except hidden and unfinished ones, which Spark names with ``.`` or ``_``."""
    for file in directory.rglob("*.parquet"):
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(directory).parts):
            yield file


def _read_plain(text: str) -> SubscriptionFile:
    """Read one query per line; blank lines are skipped but counted."""
    lines = text.split("\n")
    rejected = []
    if not _is_unicode(text):
        invalid = [number for number, line in enumerate(lines, 1) if not _is_unicode(line)]
        rejected = [RejectedSubscription(number, number, not_utf8("query")) for number in invalid]
        lines = [line if _is_unicode(line) else "" for line in lines]
    queries = pc.utf8_rtrim(pa.array(lines, pa.string()), "\r")
    full = pc.not_equal(pc.utf8_trim_whitespace(queries), "")
    numbers = np.flatnonzero(full.to_numpy(zero_copy_only=False)) + 1
    return from_table(pa.table({"id": numbers, "query": queries.filter(full)}), numbers, rejected)


def _is_unicode(value: object) -> bool:
    """Return False for text with a lone surrogate: bytes that were not UTF-8, or an escape such as ``\\ud800``."""
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class _SubscriptionRows:
    """Collects valid and rejected subscriptions, one at a time."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.ids: list[int | str] = []
        self.queries: list[str | None] = []
        self.owners: list[str | None] = []
        self.regions: list[list[float] | None] = []
        self.rejected: list[RejectedSubscription] = []

    def read_json_lines(self, text: str) -> SubscriptionFile:
        decode = json.JSONDecoder().raw_decode
        for number, line in enumerate(text.split("\n"), 1):
            line = line.strip(" \t\r")
            if not line:
                continue
            try:
                record, end = decode(line)
            except (ValueError, RecursionError) as error:
                self.reject(number, None, f"the line is not valid JSON ({error})")
                continue
            if end != len(line):
                self.reject(number, None, f"the line is not valid JSON (extra data at character {end + 1})")
            elif isinstance(record, dict):
                self.add(number, record)
            else:
                self.reject(number, None, "the line is not a JSON object")
        return self.finish()

    def read_csv(self, text: str) -> SubscriptionFile:
        records = _csv_records(text.split("\n"))
        _, header = next(records, (0, list(_COLUMNS)))
        if isinstance(header, str):
            raise InputError(f"the header is not valid CSV ({header}).")
        names = [name.strip() for name in header]
        for name in ("id", "query"):
            if name not in names:
                raise InputError(f"the column `{name}` is missing. The columns are: {', '.join(names)}.")
        for number, record in records:
            if isinstance(record, str):
                self.reject(number, None, f"the line is not valid CSV ({record})")
            elif len(record) > len(names):
                self.reject(number, None, f"the line has {len(record)} fields, but the header has {len(names)}")
            else:  # an empty field counts as missing
                self.add(number, {name: field for name, field in zip(names, record, strict=False) if field})
        return self.finish()

    def add(self, number: int, record: dict[str, Any]) -> None:
        """Add a subscription, or reject it with the first reason."""
        subscription_id = record.get("id")
        if subscription_id is None or subscription_id == "":
            self.reject(number, None, missing_field("id"))
        elif type(subscription_id) not in (str, int):  # isinstance would accept a bool as an int
            self.reject(number, None, "the id is neither a string nor an integer")
        else:
            try:
                query, owner, region = _check_record(record)
            except ValueError as error:
                self.reject(number, subscription_id, str(error))
                return
            self.lines.append(number)
            self.ids.append(subscription_id)
            self.queries.append(query)
            self.owners.append(owner)
            self.regions.append(region)

    def reject(self, number: int, subscription_id: object | None, reason: str) -> None:
        self.rejected.append(RejectedSubscription(number, subscription_id, reason))

    def finish(self) -> SubscriptionFile:
        try:
            table = self.table()
        except UnicodeEncodeError:  # rare, so checked only when Arrow fails
            self.reject_invalid_unicode()
            table = self.table()
        return from_table(table, np.array(self.lines, np.int64), self.rejected)

    def reject_invalid_unicode(self) -> None:
        rows = zip(self.ids, self.queries, self.owners, strict=True)
        is_valid = [all(map(_is_unicode, row)) for row in rows]
        for at in np.flatnonzero(~np.array(is_valid)):
            subscription_id = self.ids[at] if _is_unicode(self.ids[at]) else None
            self.reject(self.lines[at], subscription_id, "the line is not valid Unicode")
        self.lines, self.ids = list(compress(self.lines, is_valid)), list(compress(self.ids, is_valid))
        self.queries, self.owners = list(compress(self.queries, is_valid)), list(compress(self.owners, is_valid))
        self.regions = list(compress(self.regions, is_valid))

    def table(self) -> pa.Table:
        texts = [pa.array(column, pa.string()) for column in (self.queries, self.owners)]
        return pa.table([_id_array(self.ids), *texts, pa.array(self.regions, REGION_TYPE)], names=list(_COLUMNS))


def _check_record(record: dict[str, Any]) -> tuple[str | None, str | None, list[float] | None]:
    """Return query, owner and region of a record. Raise ValueError with the reason to reject it."""
    query, owner, region = record.get("query"), record.get("owner"), record.get("region")
    if query is not None and type(query) is not str:
        raise ValueError("the query is not a string")
    if type(owner) is int:
        owner = str(owner)
    if owner is not None and type(owner) is not str:
        raise ValueError("the owner is not a string")
    return query, owner, None if region is None else parse_region(region)


def _csv_records(lines: list[str]) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each record, or the error in it, with the line it starts on; skip blank lines.

    Strict, because a phrase whose quotes are not doubled would otherwise lose them silently. After a quote that is
    never closed, reading continues at the next line, so that one subscription is lost and not the rest of the file.
    """
    start = 0
    while start < len(lines):
        base = start
        reader = csv.reader((lines[at] + "\n" for at in range(base, len(lines))), strict=True)
        try:
            for record in reader:
                if record:
                    yield start + 1, record
                start = base + reader.line_num
            return
        except csv.Error as error:
            yield start + 1, str(error)
            start += 1


def _id_array(ids: list[int | str]) -> pa.Array:
    if ids and all(type(value) is int for value in ids):
        try:
            return pa.array(ids, pa.int64())
        except OverflowError:
            if max(map(abs, ids)) < 10**38:  # type: ignore[arg-type]
                return pa.array([Decimal(value) for value in ids], pa.decimal128(38, 0))
    return pa.array([str(value) for value in ids], pa.string())
