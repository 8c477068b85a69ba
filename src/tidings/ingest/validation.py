"""Rules for posts and subscriptions: the limits, and one text per reason to reject a row.

Three functions check posts, because callers have them in different forms: `post_reject_reason` one post (the web API;
it defines the rules), `invalid_rows` an Arrow batch (the workers), `reject_reason_sql` a Spark DataFrame.
`tests/ingest/test_validation.py` compares the three.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.config import MAX_TEXT_BYTES
from tidings.schemas import CORRUPT_RECORD

MAX_ID_BYTES = 1_024  # PostgreSQL can index up to 2,700
COORDINATE_LIMITS = {"lat": 90, "lon": 180}  # degrees

UNREADABLE_LINE = "the line cannot be read"
UNREADABLE_TIME = "the time is missing or cannot be read"


def missing_field(field: str) -> str:
    return f"the {field} is missing"


def too_long(field: str, max_bytes: int) -> str:
    return f"the {field} is longer than {max_bytes:,} bytes"


def not_utf8(field: str) -> str:
    return f"the {field} is not valid UTF-8"


def not_a_number(field: str) -> str:
    return f"{field} is not a number"


def out_of_range(field: str) -> str:
    return f"{field} is not between -{COORDINATE_LIMITS[field]} and {COORDINATE_LIMITS[field]}"


def post_reject_reason(post: Mapping[str, Any]) -> str | None:
    """Return the first reason to reject a post, or None. Its text is str or bytes, its coordinates are numbers."""
    if post.get(CORRUPT_RECORD) is not None:
        return UNREADABLE_LINE
    text = post.get("text")
    if text is None:
        return missing_field("text")
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_TEXT_BYTES:
        return too_long("text", MAX_TEXT_BYTES)
    if not _is_utf8(data):
        return not_utf8("text")
    if (post_id := post.get("id")) is None:
        return missing_field("id")
    if len(str(post_id).encode("utf-8", "surrogatepass")) > MAX_ID_BYTES:
        return too_long("id", MAX_ID_BYTES)
    return next(filter(None, (_coordinate_reject_reason(name, post.get(name)) for name in COORDINATE_LIMITS)), None)


def invalid_rows(batch: pa.RecordBatch, positions: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the rows of a batch that are rejected, except those that are not valid UTF-8.

    `positions` has longitude and latitude; an infinite coordinate was not a number. The analyzer rejects invalid UTF-8.
    """
    is_invalid = np.abs(positions[:, 0]) > COORDINATE_LIMITS["lon"]
    is_invalid |= np.abs(positions[:, 1]) > COORDINATE_LIMITS["lat"]
    text_bytes = pc.binary_length(batch.column("text"))
    is_invalid |= pc.fill_null(pc.greater(text_bytes, MAX_TEXT_BYTES), True).to_numpy(zero_copy_only=False)
    ids = batch.column("id")
    if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
        too_long_or_missing = pc.fill_null(pc.greater(pc.binary_length(ids), MAX_ID_BYTES), True)
        is_invalid |= too_long_or_missing.to_numpy(zero_copy_only=False)
    elif ids.null_count:
        is_invalid |= pc.is_null(ids).to_numpy(zero_copy_only=False)
    if CORRUPT_RECORD in batch.schema.names:
        is_invalid |= batch.column(CORRUPT_RECORD).is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(is_invalid)


def reject_reason_sql(columns: Collection[str]) -> str:
    """Return a Spark SQL expression for the first reason to reject a row, or null.

    Coordinates must be doubles: null if missing, infinite if not a number.
    """
    cases = {f"{CORRUPT_RECORD} IS NOT NULL": UNREADABLE_LINE} if CORRUPT_RECORD in columns else {}
    cases["text IS NULL"] = missing_field("text")
    cases[f"octet_length(text) > {MAX_TEXT_BYTES}"] = too_long("text", MAX_TEXT_BYTES)
    cases["NOT is_valid_utf8(text)"] = not_utf8("text")
    cases["id IS NULL"] = missing_field("id")
    cases[f"octet_length(CAST(id AS STRING)) > {MAX_ID_BYTES}"] = too_long("id", MAX_ID_BYTES)
    for name, limit in COORDINATE_LIMITS.items() if "lat" in columns else ():
        cases[f"{name} = double('infinity')"] = not_a_number(name)
        cases[f"abs({name}) > {limit}"] = out_of_range(name)
    whens = (f"WHEN {condition} THEN '{reason}'" for condition, reason in cases.items())
    return f"CASE {' '.join(whens)} END"


def _coordinate_reject_reason(name: str, value: float | None) -> str | None:
    if value is None or np.isnan(value):
        return None
    if value == np.inf:
        return not_a_number(name)
    return out_of_range(name) if abs(value) > COORDINATE_LIMITS[name] else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
