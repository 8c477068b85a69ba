"""Read the coefficients that `tidings correlate` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
from numpy.typing import NDArray

from tidings.correlate.partition.tagset_trie import TagSetTrie
from tidings.errors import InputError
from tidings.schemas import COEFFICIENT_FIELDS
from tidings.text.csv_cells import NEUTRALIZED

_STAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Coefficients:
    """One row per window and tag set: tags are indices of `names`, `sets` numbers equal tag sets equally."""

    names: list[str]
    starts_us: NDArray[np.int64]
    ends_us: NDArray[np.int64]
    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    sets: NDArray[np.uint32]
    support: NDArray[np.int64]
    union: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends_us)

    @property
    def jaccard(self) -> NDArray[np.float64]:
        return np.divide(self.support, self.union)

    def tags_of(self, row: int) -> list[str]:
        return [self.names[tag] for tag in self.tags[int(self.starts[row]) : int(self.starts[row + 1])].tolist()]


def read_coefficients(path: Path, columns: tuple[str, ...] = COEFFICIENT_FIELDS) -> Coefficients:
    """Return all coefficients in a file or directory of `tidings correlate`. Raises InputError."""
    if not path.exists():
        raise InputError(f"{path}: not found. Create it with `tidings correlate … --out {path}`.")
    try:
        table = _read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0].rstrip('.')}).") from error
    if missing := [name for name in columns if name not in table.column_names]:
        raise InputError(f"{path}: not an output of `tidings correlate`; column `{missing[0]}` is missing.")
    return parse_coefficients(table.combine_chunks())


def _read_table(path: Path) -> pa.Table:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        table = pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types={"tags": pa.string()}))
        at = table.column_names.index("tags") if "tags" in table.column_names else -1
        if at < 0:
            return table
        tags = pc.replace_substring_regex(table["tags"], NEUTRALIZED, r"\1")
        return table.set_column(at, "tags", pc.split_pattern(tags, " "))
    if suffix in (".json", ".jsonl", ".ndjson"):
        return pa.json.read_json(path)
    return pa.dataset.dataset(path, format="parquet").to_table()


def parse_coefficients(table: pa.Table) -> Coefficients:
    """Return the coefficients of a table with the columns that `tidings correlate` writes."""
    lists = table["tags"].chunk(0) if table["tags"].num_chunks else pa.array([], pa.list_(pa.string()))
    encoded = lists.flatten().cast(pa.string()).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    tags = encoded.indices.to_numpy().astype(np.uint32)
    rows = np.repeat(np.arange(len(lists)), lengths.astype(np.int64))
    ordered = tags[np.lexsort((tags, rows))]
    begin, end = (table[name].cast(_STAMP).cast(pa.int64()).to_numpy() for name in ("window_start", "window_end"))
    support, union = (table[name].cast(pa.int64()).to_numpy() for name in ("support", "union"))
    return Coefficients(
        names, begin, end, ordered, starts, TagSetTrie().find_or_add_rows(ordered, starts), support, union
    )
