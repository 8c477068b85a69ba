"""Field names, Arrow schemas and small records of the data that flows through Tidings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# A region is four degrees in this order, as in GeoJSON's bounding boxes; or polygons as one list of numbers: the number
# of polygons, for each the number of rings, for each the number of positions, and for each longitude and latitude.
REGION_FIELDS = ("west", "south", "east", "north")
REGION_TYPE = pa.list_(pa.float64())

# The fields of a post; only `text` is required.
POST_FIELDS = ("id", "time", "author", "text", "lang", "lat", "lon", "tags", "title", "link")

CORRUPT_RECORD = "_corrupt_record"  # the column in which Spark's readers put a line they cannot read

# Columns that say where a row comes from: a message of a topic; or a file, the offset of its split, the row there.
SOURCE = "_source"
ORIGIN_FIELDS = ("_file", "_split", "_row")

# The fields of a match, in this order. Both ids keep their type and value, so the schema depends on the input.
MATCH_FIELDS = ("subscription_id", "post_id", "index_version")

# The fields of a coefficient of a tag set, in this order.
COEFFICIENT_FIELDS = ("window_start", "window_end", "tags", "jaccard", "support", "union", "calculator")


def subscription_schema(id_type: pa.DataType) -> pa.Schema:
    """Return the columns of every subscription table; owner and region may be null."""
    return pa.schema(
        [
            pa.field("id", id_type, nullable=False),
            pa.field("query", pa.string()),
            pa.field("owner", pa.string()),
            pa.field("region", REGION_TYPE),
        ]
    )


@dataclass(frozen=True, slots=True)
class RejectedSubscription:
    """A subscription that was left out: its line (or row) from 1, its id if it has one, and the reason."""

    line: int
    id: object | None
    reason: str


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """Subscriptions read from a file: `table` has `subscription_schema`, `rejected` the rows that were left out.

    `lines` has for each row of the table its line (or row) in the file, from 1.
    """

    table: pa.Table
    rejected: list[RejectedSubscription]
    lines: npt.NDArray[np.int64]
