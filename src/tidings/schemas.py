"""The things that flow through Tidings, defined once: their names, their Arrow schemas, their small records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# A region is four degrees in this order, as in GeoJSON's bounding boxes; or polygons as one run of numbers: how many,
# and for each how many rings, and for each how many positions, and for each its longitude and latitude.
REGION_FIELDS = ("west", "south", "east", "north")
REGION_TYPE = pa.list_(pa.float64())

# What `receive.posts` uses of a post; only the text is required.
POST_FIELDS = ("id", "time", "author", "text", "lang", "lat", "lon", "tags", "title", "link")

CORRUPT = "_corrupt_record"  # where Spark's readers put a line they cannot read

# What a match is, in this order. Both ids keep the type and value they came with, so the schema depends on the input.
MATCH_FIELDS = ("subscription_id", "post_id", "index_version")


# What a coefficient of a set of tags is, in this order.
COEFFICIENT_FIELDS = ("window_start", "window_end", "tags", "jaccard", "support", "union", "calculator")


def subscription_schema(id_type: pa.DataType) -> pa.Schema:
    """The columns of every subscription table, whatever it came from; owner and region may be null."""
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
    """A subscription that was left out: its line (or row) counted from 1, its id if it had one, and why."""

    line: int
    id: object | None
    reason: str


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """Subscriptions as they came: ``table`` has ``subscription_schema``; what could not be used is in ``rejected``.

    ``lines`` says for each row of the table the line (or row) it came from, counted from 1.
    """

    table: pa.Table
    rejected: list[RejectedSubscription]
    lines: npt.NDArray[np.int64]
