"""The coefficients of `tidings correlate` read back from wherever they were written."""

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

from tidings.correlate.partition.tagset_trie import Nodes
from tidings.errors import InputError
from tidings.schemas import COEFFICIENT_FIELDS

_STAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Row by row: the window, the tags (numbers of `names`), which set of tags that is, and its counts."""

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
    """All coefficients in a file or directory that `tidings correlate` wrote."""
    if not path.exists():
        raise InputError(f"{path}: there are no correlations here; make them with `tidings correlate … --out {path}`.")
    try:
        table = _table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: this cannot be read ({str(error).splitlines()[0].rstrip('.')}).") from error
    if missing := [name for name in columns if name not in table.column_names]:
        raise InputError(f"{path}: these are no correlations; they have no column `{missing[0]}`.")
    return coefficients_of(table.combine_chunks())


def _table(path: Path) -> pa.Table:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        table = pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types={"tags": pa.string()}))
        at = table.column_names.index("tags") if "tags" in table.column_names else -1
        return table if at < 0 else table.set_column(at, "tags", pc.split_pattern(table["tags"], " "))
    if suffix in (".json", ".jsonl", ".ndjson"):
        return pa.json.read_json(path)
    return pa.dataset.dataset(path, format="parquet").to_table()


def coefficients_of(table: pa.Table) -> Coefficients:
    """Those of a table that has them as they are written."""
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
    return Coefficients(names, begin, end, ordered, starts, Nodes().number(ordered, starts), support, union)
