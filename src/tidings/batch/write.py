"""Write rows to files with Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.text.csv_cells import FORMULA, NUMBER

# Quote fields as RFC 4180 requires, and trim nothing.
_CSV = {
    "header": "false",
    "quote": '"',
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "encoding": "UTF-8",
}


def write_parts(rows: DataFrame, folder: Path, kind: str, raw_csv: bool = False) -> None:
    """Run the job and write its parts to a new folder. Texts in CSV are neutralized (`csv_cells`) unless `raw_csv`."""
    if kind == "csv" and not raw_csv:
        rows = rows.withColumns({name: _neutralized(name) for name in _text_columns(rows)})
    rows.write.format(kind).options(**(_CSV if kind == "csv" else {})).save(str(folder))


def _text_columns(rows: DataFrame) -> list[str]:
    return [field.name for field in rows.schema.fields if isinstance(field.dataType, T.StringType)]


def _neutralized(name: str) -> Column:
    """Do in Spark what `neutralize_cell` does."""
    text = F.col(name)
    return F.when(text.rlike(FORMULA) & ~text.rlike(NUMBER), F.concat(F.lit("'"), text)).otherwise(text)
