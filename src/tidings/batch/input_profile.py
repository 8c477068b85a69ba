"""Profile posts before matching: their number, rejected ones by reason, and duplicate ids."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import QUICK_SAMPLE_POSTS
from tidings.ingest.row_lines import RowLines
from tidings.schemas import ORIGIN_FIELDS
from tidings.spark import post_columns
from tidings.spark.post_reader import local_path, one_split_per_partition
from tidings.spark.sample import draw_posts, to_sample, with_drawn

_SAMPLE_BYTES = 25_000_000  # of uncompressed files: of tweets, 100,000
_COMPRESSION = {".gz": 8, ".parquet": 3, ".pq": 3}  # rough factors


@dataclass(frozen=True, slots=True)
class InputProfile:
    """Number of posts, of rejected posts by reason, and of posts with an id that an earlier post has; a sample."""

    posts: int
    reasons: dict[str, int]
    duplicates: int
    sample: PostSample

    @property
    def rejected(self) -> int:
        return sum(self.reasons.values())


def estimate_text_bytes(files: Iterable[Path]) -> int:
    """Return the approximate size of files of posts, uncompressed."""
    return sum(file.stat().st_size * _COMPRESSION.get(file.suffix, 1) for file in files)


def profile_posts(posts: DataFrame, input_bytes: int) -> InputProfile:
    """Count posts, rejected posts by reason, and duplicate ids (given or generated), and draw a random sample."""
    share = min(1.0, _SAMPLE_BYTES / max(1, input_bytes))
    checked = with_drawn(post_columns.with_reject_reason(posts), share)
    counted = F.count("*").alias("count"), F.collect_list("drawn").alias("drawn")
    rows = checked.groupBy("reason").agg(*counted).toArrow()
    counts = dict(zip(rows["reason"].to_pylist(), rows["count"].to_pylist(), strict=True))
    total = sum(counts.values())
    counts.pop(None, None)
    reasons = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    sample = draw_posts(to_sample(rows["drawn"].combine_chunks()), QUICK_SAMPLE_POSTS, seed=0)
    return InputProfile(total, reasons, _count_duplicates(posts), sample)


def _count_duplicates(posts: DataFrame) -> int:
    ids = post_columns.select_accepted(posts).groupBy("id").count().where("count > 1")
    return int(ids.agg(F.coalesce(F.sum(F.col("count") - 1), F.lit(0))).collect()[0][0])


def write_rejected(rows: DataFrame, file_format: str, file: Path) -> None:
    """Append rejected posts to a file, one JSON object per line, without collecting them in memory.

    `rows` have `post_id`, `reason`, `text` and the columns of `with_origin`.
    """
    found = RowLines(file_format)
    with file.open("a", encoding="utf-8") as lines, one_split_per_partition(rows.sparkSession):
        for row in rows.toLocalIterator():
            source, split, number = (row[name] for name in ORIGIN_FIELDS)
            path = local_path(source)
            line = found.line_of(Path(path), split, number)
            lines.write(format_rejected("post", row["post_id"], path, line, row["reason"], row["text"]))
    found.close()


def format_rejected(kind: str, name: object, file: str, line: int | None, reason: str, text: str | None) -> str:
    """Format a rejected post or subscription as a line of the JSON file next to OUT. Parquet has rows, not lines."""
    record = {"kind": kind, "id": _to_json_id(name), "file": file, "line": line, "reason": reason, "text": text}
    return json.dumps(record, ensure_ascii=False, default=str) + "\n"


def _to_json_id(name: Any) -> object:
    """Convert an id to a JSON value; decimals without a fraction become integers of any length."""
    if isinstance(name, Decimal) and name == name.to_integral_value():
        return int(name)
    return bytes(name).hex() if isinstance(name, bytes | bytearray) else name
