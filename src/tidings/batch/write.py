"""Matches from Spark into files."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

# Fields are quoted where RFC 4180 asks for it, and nothing is trimmed.
_CSV = {
    "header": "false",
    "quote": '"',
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "encoding": "UTF-8",
}


def write_matches(matches: DataFrame, folder: Path, kind: str) -> None:
    """Run the matching and write its parts into a new folder."""
    matches.write.format(kind).options(**(_CSV if kind == "csv" else {})).save(str(folder))
