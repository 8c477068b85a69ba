"""Find files of posts, determine their format and check that they can contain posts.

A path is a file, a directory (all files below it) or a glob. The suffix determines the format: ``.parquet`` or ``.pq``;
``.jsonl``, ``.ndjson`` or ``.json`` with one object per line; ``.csv`` with a header; the last two also with ``.gz``.
The checks are fast and need no Spark, so that a wrong path is reported before Spark starts.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from tidings.errors import InputError
from tidings.schemas import POST_FIELDS

FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
}
FORMAT_NAMES = {"parquet": "Parquet", "json": "JSON Lines", "csv": "CSV"}
_SUPPORTED = "Parquet (.parquet), JSON Lines (.jsonl) or CSV (.csv), the last two also with .gz"
_HEADER_BYTES = 1 << 20  # larger than any header


@dataclass(frozen=True, slots=True)
class PostFiles:
    """Files of one format; `headers` has the column names of each CSV file."""

    format: str
    files: tuple[Path, ...]
    base: Path | None = None  # the given directory; `name=value` folders below it are columns
    headers: tuple[tuple[str, ...], ...] = ()
    any_of_columns: tuple[str, ...] = ("text",)  # every file has at least one of these


def find_post_files(path: str, any_of_columns: tuple[str, ...] = ("text",)) -> PostFiles:
    """Return the files of a path. Raise InputError if they cannot be used as posts.

    Every file must have at least one of the columns in `any_of_columns`.
    """
    if "://" in path:
        raise InputError(f"{path}: posts must be local files. Read others in your own Spark program.")
    roots = [Path(path)] if os.path.lexists(path) else [Path(name) for name in sorted(glob.glob(path, recursive=True))]
    if not roots:
        problem = "no file matches this pattern" if glob.has_magic(path) else "no such file or directory"
        raise InputError(f"{path}: {problem}.")
    files = tuple(dict.fromkeys(file for root in roots for file in _files(root)))
    if not files:
        raise InputError(f"{path}: the directory is empty. Supported formats: {_SUPPORTED}.")
    base = roots[0] if len(roots) == 1 and roots[0].is_dir() else None
    return _check_contents(PostFiles(_common_format(files), files, base, any_of_columns=any_of_columns))


def _files(root: Path) -> list[Path]:
    """Return the file, or all files below the directory except hidden and unfinished ones (``.`` or ``_``)."""
    if not root.is_dir():
        _check_name(root)
        return [root]
    files = []
    for folder, folders, names in os.walk(root, onerror=_raise_unreadable):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        files += [Path(folder, name) for name in sorted(names) if name[0] not in "._"]
    for file in files:
        _check_name(file)
    return files


def _check_name(file: Path) -> None:
    """Raise InputError for names that Spark ignores silently (hidden files) or cannot read (colons)."""
    if file.name[0] in "._":
        raise InputError(f"{file}: Spark ignores files whose name starts with . or _. Rename it.")
    if ":" in os.path.abspath(file):
        raise InputError(f"{file}: Spark cannot read paths with a colon. Rename it.")


def _raise_unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: {error.strerror}.")


def _common_format(files: Iterable[Path]) -> str:
    first: dict[str, Path] = {}
    for file in files:
        first.setdefault(_format(file), file)
    if len(first) > 1:
        names = " and ".join(f"{FORMAT_NAMES[name]} ({file})" for name, file in list(first.items())[:2])
        raise InputError(f"The posts have several formats: {names}. Select one, for example with a glob: '*.csv'.")
    return next(iter(first))


def _format(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes[-1:] == [".gz"] and FORMAT_OF_SUFFIX.get(suffixes[-2] if len(suffixes) > 1 else "") in ("json", "csv"):
        return FORMAT_OF_SUFFIX[suffixes[-2]]
    known = FORMAT_OF_SUFFIX.get(suffixes[-1] if suffixes else "")
    if known is None:
        raise InputError(f"{file}: unknown format. Supported formats: {_SUPPORTED}.")
    return known


def _check_contents(posts: PostFiles) -> PostFiles:
    for file in posts.files:
        if not file.is_file():
            raise InputError(f"{file}: {'not a file' if file.exists() else 'no such file'}.")
        if not os.access(file, os.R_OK):
            raise InputError(f"{file}: Permission denied.")
    if posts.format == "parquet":
        _check_parquet(posts)
    return _read_headers(posts) if posts.format == "csv" else posts


def _check_parquet(posts: PostFiles) -> None:
    """Raise InputError if a footer is damaged, a file lacks the columns, or a column has different types."""
    seen: dict[str, tuple[pa.DataType, Path]] = {}
    for file in posts.files:
        schema = _parquet_schema(file)
        if not set(posts.any_of_columns) & set(schema.names):
            raise InputError(f"{file}: {_missing_columns(posts.any_of_columns, schema.names)}")
        for name in (field for field in POST_FIELDS if field in schema.names):
            kind = schema.field(name).type
            first_kind, first_file = seen.setdefault(name, (kind, file))
            if not _is_same_type(kind, first_kind):
                types = f"{first_kind} in {first_file} and {kind} in {file}"
                raise InputError(f"The column `{name}` has different types: {types}. Write one type.")
    if "text" in seen:
        _check_text_type(*seen["text"])


def _check_text_type(kind: pa.DataType, file: Path) -> None:
    plain = kind.value_type if pt.is_dictionary(kind) else kind
    if not (_is_text(plain) or pt.is_binary(plain) or pt.is_large_binary(plain) or pt.is_null(plain)):
        raise InputError(f"{file}: the column `text` has type {kind}. Write strings.")


def _parquet_schema(file: Path) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0].rstrip('.')}).") from error


def _is_same_type(kind: pa.DataType, other: pa.DataType) -> bool:
    return bool(kind == other or (_is_text(kind) and _is_text(other)))


def _is_text(kind: pa.DataType) -> bool:
    """Whether this is a string type; Arrow has several that are the same in a Parquet file."""
    if pt.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or kind == pa.string_view())


def _read_headers(posts: PostFiles) -> PostFiles:
    """Return the files that are not empty, with their headers."""
    read = [(file, read_csv_header(file, posts.any_of_columns)) for file in posts.files]
    full = [(file, header) for file, header in read if header]
    if not full:
        raise InputError(f"{posts.files[0]}: the file is empty. A CSV file of posts needs a header with `text`.")
    files, headers = zip(*full, strict=True)
    return replace(posts, files=files, headers=headers)


def read_csv_header(file: Path, any_of_columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the column names in the first line that is not blank; empty without such a line."""
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as content:
            start = content.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
        names = next((record for record in csv.reader(io.StringIO(start)) if record), [])
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise InputError(f"{file}: cannot be read as CSV ({str(error).rstrip('.')}).") from error
    if names and any_of_columns and not set(any_of_columns) & set(names):
        raise InputError(f"{file}: {_missing_columns(any_of_columns, names)}")
    repeated = next((name for name in names if names.count(name) > 1 and name in POST_FIELDS), None)
    if repeated is not None:
        raise InputError(f"{file}: the column `{repeated}` occurs twice.")
    return tuple(names)


def _missing_columns(any_of_columns: tuple[str, ...], names: Iterable[str]) -> str:
    required = " or ".join(f"`{name}`" for name in any_of_columns)
    return f"the column {required} is missing. The columns are: {', '.join(map(repr, names)) or 'none'}."
