"""Files of subscriptions, read into one Arrow table. A bad line never stops the reading: it is set aside.

By suffix (also with ``.gz``): ``.jsonl``, ``.ndjson``, ``.json`` hold one JSON object a line; ``.csv`` has a header;
``.parquet`` is a file or a directory; anything else is text with one query a line, whose id is the line number.

Ids keep their type and value: CSV ids stay the text they are (``007``), JSON integers become int64, or decimals of 38
digits where one is larger. A JSON file that mixes integers and strings (or has an integer of more than 38 digits) gets
string ids, as a column has one type.
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
from tidings.query.geo.column import parse_region
from tidings.schemas import REGION_TYPE, RejectedSubscription, SubscriptionFile

__all__ = ["from_table", "read_subscriptions"]

_COLUMNS = ("id", "query", "owner", "region")
_UTF16 = "UTF-16, not UTF-8"
_FOREIGN = {b"PAR1": "Parquet, but is not named .parquet", b"\xff\xfe": _UTF16, b"\xfe\xff": _UTF16}


def read_subscriptions(path: str | Path) -> SubscriptionFile:
    """Every usable subscription of the file and what was rejected; InputError if the file as a whole cannot be used."""
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    try:
        if path.is_dir() or suffixes[-1:] == [".parquet"]:
            return from_table(_read_parquet(path))
        text = _read_text(path)
        if kind in (".jsonl", ".ndjson", ".json"):
            return _Rows().read_json_lines(text)
        return _Rows().read_csv(text) if kind == ".csv" else _read_plain(text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_text(path: Path) -> str:
    """The content; a byte that is not UTF-8 becomes a lone surrogate, by which its line is found and rejected later."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"this is not a whole gzip file ({error}).") from error
    for magic, what in _FOREIGN.items():
        if content.startswith(magic):
            raise InputError(f"this file is {what}.")
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _read_parquet(path: Path) -> pa.Table:
    files = [path] if path.is_file() else sorted(_visible_parquet(path))
    if not files:
        raise InputError("this directory holds no Parquet files." if path.is_dir() else "there is no such file.")
    try:
        present = [name for name in _COLUMNS if name in pq.read_schema(files[0]).names]
        return pa.concat_tables(pq.read_table(file, columns=present or None, partitioning=None) for file in files)
    except pa.ArrowException as error:
        raise InputError(f"this cannot be read as Parquet ({str(error).splitlines()[0]}).") from error


def _visible_parquet(directory: Path) -> Iterator[Path]:
    """The Parquet files below, without the hidden and unfinished ones that Spark names with ``.`` or ``_``."""
    for file in directory.rglob("*.parquet"):
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(directory).parts):
            yield file


def _read_plain(text: str) -> SubscriptionFile:
    """One query a line; blank lines are skipped but counted."""
    lines = text.split("\n")
    rejected = []
    if not _is_unicode(text):
        wrong = [number for number, line in enumerate(lines, 1) if not _is_unicode(line)]
        rejected = [RejectedSubscription(number, number, "the query is not valid UTF-8") for number in wrong]
        lines = [line if _is_unicode(line) else "" for line in lines]
    queries = pc.utf8_rtrim(pa.array(lines, pa.string()), "\r")
    full = pc.not_equal(pc.utf8_trim_whitespace(queries), "")
    numbers = np.flatnonzero(full.to_numpy(zero_copy_only=False)) + 1
    return from_table(pa.table({"id": numbers, "query": queries.filter(full)}), numbers, rejected)


def _is_unicode(value: object) -> bool:
    """False for text with a lone surrogate: bytes that were not UTF-8, or an escape such as ``\\ud800``."""
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class _Rows:
    """Collects subscriptions that come one at a time, and those that cannot be used."""

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
                self.reject(number, None, f"it is not JSON ({error})")
                continue
            if end != len(line):
                self.reject(number, None, f"it is not JSON (extra data at character {end + 1})")
            elif isinstance(record, dict):
                self.add(number, record)
            else:
                self.reject(number, None, "it is not a JSON object")
        return self.finish()

    def read_csv(self, text: str) -> SubscriptionFile:
        records = _csv_records(text.split("\n"))
        _, header = next(records, (0, list(_COLUMNS)))
        if isinstance(header, str):
            raise InputError(f"the header is not CSV ({header}).")
        names = [name.strip() for name in header]
        for name in ("id", "query"):
            if name not in names:
                raise InputError(f"the header has no column `{name}`; the columns found are: {', '.join(names)}.")
        for number, record in records:
            if isinstance(record, str):
                self.reject(number, None, f"it is not CSV ({record})")
            elif len(record) > len(names):
                self.reject(number, None, f"it has {len(record)} fields and the header only {len(names)}")
            else:  # an empty field is one that was not given
                self.add(number, {name: field for name, field in zip(names, record, strict=False) if field})
        return self.finish()

    def add(self, number: int, record: dict[str, Any]) -> None:
        """Take one subscription, or reject it with the first thing that is wrong with it."""
        name = record.get("id")
        if name is None or name == "":
            self.reject(number, None, "it has no id")
        elif type(name) is not str and type(name) is not int:  # a bool is an int to isinstance
            self.reject(number, None, "its id is neither a string nor an integer")
        else:
            try:
                query, owner, region = _checked(record)
            except ValueError as error:
                self.reject(number, name, str(error))
                return
            self.lines.append(number)
            self.ids.append(name)
            self.queries.append(query)
            self.owners.append(owner)
            self.regions.append(region)

    def reject(self, number: int, name: object | None, reason: str) -> None:
        self.rejected.append(RejectedSubscription(number, name, reason))

    def finish(self) -> SubscriptionFile:
        try:
            table = self.table()
        except UnicodeEncodeError:  # rare, so looked for only when Arrow complains
            self.reject_broken_text()
            table = self.table()
        return from_table(table, np.array(self.lines, np.int64), self.rejected)

    def reject_broken_text(self) -> None:
        rows = zip(self.ids, self.queries, self.owners, strict=True)
        good = [all(map(_is_unicode, row)) for row in rows]
        for at in np.flatnonzero(~np.array(good)):
            name = self.ids[at] if _is_unicode(self.ids[at]) else None
            self.reject(self.lines[at], name, "it is not valid Unicode text")
        self.lines, self.ids = list(compress(self.lines, good)), list(compress(self.ids, good))
        self.queries, self.owners = list(compress(self.queries, good)), list(compress(self.owners, good))
        self.regions = list(compress(self.regions, good))

    def table(self) -> pa.Table:
        texts = [pa.array(column, pa.string()) for column in (self.queries, self.owners)]
        return pa.table([_id_array(self.ids), *texts, pa.array(self.regions, REGION_TYPE)], names=list(_COLUMNS))


def _checked(record: dict[str, Any]) -> tuple[str | None, str | None, list[float] | None]:
    """The query, owner and region of a record, or ValueError with what is wrong."""
    query, owner, region = record.get("query"), record.get("owner"), record.get("region")
    if query is not None and type(query) is not str:
        raise ValueError("its query is not a string")
    if type(owner) is int:
        owner = str(owner)
    if owner is not None and type(owner) is not str:
        raise ValueError("its owner is not a string")
    return query, owner, None if region is None else parse_region(region)


def _csv_records(lines: list[str]) -> Iterator[tuple[int, list[str] | str]]:
    """Each record with the line it starts on, or what is wrong with it; blank lines are left out.

    Strict, for a phrase whose quotes were not doubled would otherwise silently lose them. After a quote that is never
    closed the reading goes on at the next line, so that it costs one subscription and not the rest of the file.
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
    if ids and all(type(name) is int for name in ids):
        try:
            return pa.array(ids, pa.int64())
        except OverflowError:
            if max(map(abs, ids)) < 10**38:  # type: ignore[arg-type]
                return pa.array([Decimal(name) for name in ids], pa.decimal128(38, 0))
    return pa.array([str(name) for name in ids], pa.string())
