"""A plan as one Parquet file: its table, and what is said of it in the metadata, with a format and checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.errors import InputError

_KEY = b"tidings"
_AGAIN = "make it again with `tidings plan learn`"


def save(table: pa.Table, about: Mapping[str, Any], kind: tuple[str, int], path: Path) -> None:
    """`kind` is the format and its version."""
    told = {"format": kind[0], "format_version": kind[1], **about}
    pq.write_table(table.replace_schema_metadata({_KEY: json.dumps(told)}), path, write_page_checksum=True)


def load(path: Path, kind: tuple[str, int]) -> tuple[pa.Table, dict[str, Any]]:
    """The table and what is said of it; InputError, naming the file, when it is no plan of this kind."""
    table, about = _read(path)
    if (about.get("format"), about.get("format_version")) != kind:
        raise InputError(f"{path}: this is not a plan of this version; {_AGAIN}.")
    return table, about


def format_of(path: Path) -> str:
    """The format of a plan; InputError, naming the file, when it is none."""
    return str(_read(path)[1].get("format"))


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"{path}: there is no such plan; make one with `tidings plan learn`.")
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        return table, json.loads((table.schema.metadata or {}).get(_KEY, b"{}"))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(f"{path}: this is not a whole plan; {_AGAIN}.") from error
