"""Files of posts: which files a path means, in which format they are, and whether they can hold posts at all.

A path is a file, a directory (all files below it) or a glob. The format goes by the suffix: ``.parquet`` or ``.pq``;
``.jsonl``, ``.ndjson`` or ``.json`` with one object a line; ``.csv`` with a header; the last two also with ``.gz``.
Everything here is quick and needs no Spark, so that a wrong path is told before Spark starts.
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

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv"}
NAMES = {"parquet": "Parquet", "json": "JSON Lines", "csv": "CSV"}
_KNOWN = "Parquet (.parquet), JSON Lines (.jsonl) or CSV (.csv), the last two also with .gz"
_HEADER_BYTES = 1 << 20  # more than any header has


@dataclass(frozen=True, slots=True)
class PostFiles:
    """Files of one format; `headers` has the column names of each CSV file, in the order of the files."""

    format: str
    files: tuple[Path, ...]
    base: Path | None = None  # the directory that was given: below it `name=value` folders are columns
    headers: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ("text",)  # every file has at least one of these columns


def find_posts(path: str, needs: tuple[str, ...] = ("text",)) -> PostFiles:
    """The files a path means, looked into as far as is quick; InputError when they cannot be used as posts.

    Every file must have at least one of the columns in `needs`.
    """
    if "://" in path:
        raise InputError(f"{path}: posts must be files of this machine; read others in a Spark program of your own.")
    roots = (
        [Path(path)] if os.path.lexists(path) else [Path(found) for found in sorted(glob.glob(path, recursive=True))]
    )
    if not roots:
        kind = "no file matches this pattern" if glob.has_magic(path) else "there is no such file or directory"
        raise InputError(f"{path}: {kind}.")
    files = tuple(dict.fromkeys(file for root in roots for file in _files(root)))
    if not files:
        raise InputError(f"{path}: this directory is empty; posts are files in {_KNOWN}.")
    base = roots[0] if len(roots) == 1 and roots[0].is_dir() else None
    return _looked_into(PostFiles(_one_format(files), files, base, needs=needs))


def _files(root: Path) -> list[Path]:
    """The file, or all files below the directory but the hidden and unfinished ones, named with ``.`` or ``_``."""
    if not root.is_dir():
        _check_name(root)
        return [root]
    found = []
    for folder, folders, names in os.walk(root, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        found += [Path(folder, name) for name in sorted(names) if name[0] not in "._"]
    for file in found:
        _check_name(file)
    return found


def _check_name(file: Path) -> None:
    """Spark silently reads nothing from a hidden file and trips over a colon: say so instead."""
    if file.name[0] in "._":
        raise InputError(f"{file}: Spark takes files named with . or _ for unfinished ones; rename it.")
    if ":" in os.path.abspath(file):
        raise InputError(f"{file}: Spark cannot read a file with a colon in its path; rename it.")


def _unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: {error.strerror}.")


def _one_format(files: Iterable[Path]) -> str:
    first: dict[str, Path] = {}
    for file in files:
        first.setdefault(_format(file), file)
    if len(first) > 1:
        (one, here), (other, there) = list(first.items())[:2]
        names = f"{NAMES[one]} ({here}) and {NAMES[other]} ({there})"
        raise InputError(f"The posts are of several formats, {names}; give one, for example by a glob such as '*.csv'.")
    return next(iter(first))


def _format(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes[-1:] == [".gz"] and FORMATS.get(suffixes[-2] if len(suffixes) > 1 else "") in ("json", "csv"):
        return FORMATS[suffixes[-2]]
    known = FORMATS.get(suffixes[-1] if suffixes else "")
    if known is None:
        raise InputError(f"{file}: its name does not tell its format; posts are files in {_KNOWN}.")
    return known


def _looked_into(posts: PostFiles) -> PostFiles:
    for file in posts.files:
        if not file.is_file():
            raise InputError(f"{file}: {'this is not a file' if file.exists() else 'there is no such file'}.")
        if not os.access(file, os.R_OK):
            raise InputError(f"{file}: Permission denied.")
    if posts.format == "parquet":
        _check_parquet(posts)
    return _with_headers(posts) if posts.format == "csv" else posts


def _check_parquet(posts: PostFiles) -> None:
    """Every footer can be read, every file has `text`, and no column that counts changes its type between files."""
    seen: dict[str, tuple[pa.DataType, Path]] = {}
    for file in posts.files:
        schema = _parquet_schema(file)
        if not set(posts.needs) & set(schema.names):
            raise InputError(f"{file}: {_nothing_of(posts.needs, schema.names)}")
        for name in set(schema.names) & set(POST_FIELDS):
            kind = schema.field(name).type
            known, where = seen.setdefault(name, (kind, file))
            if not _same(kind, known):
                raise InputError(f"The column `{name}` holds {known} in {where} and {kind} in {file}; write one type.")
    if "text" in seen:
        _check_text_type(*seen["text"])


def _check_text_type(kind: pa.DataType, file: Path) -> None:
    plain = kind.value_type if pt.is_dictionary(kind) else kind
    if not (_is_text(plain) or pt.is_binary(plain) or pt.is_large_binary(plain) or pt.is_null(plain)):
        raise InputError(f"{file}: the column `text` holds {kind}, not text.")


def _parquet_schema(file: Path) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{file}: this cannot be read as Parquet ({str(error).splitlines()[0].rstrip('.')})."
        ) from error


def _same(kind: pa.DataType, other: pa.DataType) -> bool:
    return bool(kind == other or (_is_text(kind) and _is_text(other)))


def _is_text(kind: pa.DataType) -> bool:
    """Arrow's several kinds of strings are one and the same in a Parquet file."""
    if pt.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or kind == pa.string_view())


def _with_headers(posts: PostFiles) -> PostFiles:
    """The files that are not empty, each with its header."""
    read = [(file, csv_header(file, posts.needs)) for file in posts.files]
    full = [(file, header) for file, header in read if header]
    if not full:
        raise InputError(f"{posts.files[0]}: this file is empty; a CSV file of posts needs a header with `text`.")
    files, headers = zip(*full, strict=True)
    return replace(posts, files=files, headers=headers)


def csv_header(file: Path, needs: tuple[str, ...]) -> tuple[str, ...]:
    """The column names of the first line that is not blank; none when there is no such line."""
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as content:
            start = content.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
        names = next((record for record in csv.reader(io.StringIO(start)) if record), [])
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise InputError(f"{file}: this cannot be read as CSV ({str(error).rstrip('.')}).") from error
    if names and needs and not set(needs) & set(names):
        raise InputError(f"{file}: {_nothing_of(needs, names)}")
    twice = next((name for name in names if names.count(name) > 1 and name in POST_FIELDS), None)
    if twice is not None:
        raise InputError(f"{file}: the column `{twice}` is there twice.")
    return tuple(names)


def _nothing_of(needs: tuple[str, ...], names: Iterable[str]) -> str:
    wanted = " or ".join(f"`{name}`" for name in needs)
    return f"posts need a column {wanted}; the columns found are: {', '.join(map(repr, names)) or 'none'}."
