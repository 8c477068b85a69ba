"""A first look at the posts, before they are matched: how many, which cannot be used and why, which ids occur twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.spark import post_columns as receive


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen: all posts, the rejected ones by reason, and the posts whose id another one had before."""

    posts: int
    reasons: dict[str, int]
    duplicates: int

    @property
    def rejected(self) -> int:
        return sum(self.reasons.values())


def look_at(posts: DataFrame) -> Look:
    """Count the posts and what is wrong with them, and those whose id (given or made) another one had before."""
    rows = receive.judged(posts).groupBy("reason").count().orderBy(F.desc("count"), "reason").collect()
    reasons = {row["reason"]: int(row["count"]) for row in rows}
    total = sum(reasons.values())
    reasons.pop(None, None)
    return Look(total, reasons, _duplicates(posts))


def _duplicates(posts: DataFrame) -> int:
    ids = receive.accepted(posts).groupBy("id").count().where("count > 1")
    return int(ids.agg(F.coalesce(F.sum(F.col("count") - 1), F.lit(0))).collect()[0][0])


def write_rejected(posts: DataFrame, file: Path) -> None:
    """Append the rejected posts to a file, one JSON object a line. They stream through, however many they are."""
    with file.open("a", encoding="utf-8") as lines:
        for row in receive.rejected(posts).toLocalIterator():
            lines.write(rejected_line("post", row["post_id"], None, row["reason"], row["text"]))


def rejected_line(kind: str, name: object, line: int | None, reason: str, text: str | None) -> str:
    """A rejected post or subscription as it stands in the file beside OUT."""
    record = {"kind": kind, "id": _plain(name), "line": line, "reason": reason, "text": text}
    return json.dumps(record, ensure_ascii=False, default=str) + "\n"


def _plain(name: Any) -> object:
    """An id as JSON can hold it; whole decimals are integers of any length."""
    if isinstance(name, Decimal) and name == name.to_integral_value():
        return int(name)
    return bytes(name).hex() if isinstance(name, bytes | bytearray) else name
