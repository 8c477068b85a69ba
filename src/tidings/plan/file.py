"""Store a plan as one Parquet file: a table, and JSON metadata with format and version; with checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.errors import InputError

_KEY = b"tidings"
_REMEDY = "Create it again with `tidings plan learn`."


def write_plan_file(table: pa.Table, metadata: Mapping[str, Any], plan_format: tuple[str, int], path: Path) -> None:
    """Write a plan. `plan_format` is the name of the format and its version."""
    document = {"format": plan_format[0], "format_version": plan_format[1], **metadata}
    pq.write_table(table.replace_schema_metadata({_KEY: json.dumps(document)}), path, write_page_checksum=True)


def read_plan_file(path: Path, plan_format: tuple[str, int]) -> tuple[pa.Table, dict[str, Any]]:
    """Return the table and the metadata; InputError names a file that is not a plan of this format."""
    table, metadata = _read(path)
    if (metadata.get("format"), metadata.get("format_version")) != plan_format:
        raise InputError(f"{path}: not a plan of format {plan_format[0]} {plan_format[1]}. {_REMEDY}")
    return table, metadata


def read_plan_format(path: Path) -> str:
    """Return the name of the format of a plan; InputError names a file that is not a plan."""
    return str(_read(path)[1].get("format"))


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"{path}: no such plan. Create one with `tidings plan learn`.")
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        return table, json.loads((table.schema.metadata or {}).get(_KEY, b"{}"))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(f"{path}: not a plan, or damaged. {_REMEDY}") from error
