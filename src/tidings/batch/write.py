"""Write rows to files with Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

# Quote fields as RFC 4180 requires, and trim nothing.
_CSV = {
    "header": "false",
    "quote": '"',
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "encoding": "UTF-8",
}


def write_parts(rows: DataFrame, folder: Path, kind: str) -> None:
    """Run the job and write its parts to a new folder."""
    rows.write.format(kind).options(**(_CSV if kind == "csv" else {})).save(str(folder))
