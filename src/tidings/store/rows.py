"""The rows that go into a store and come out of it. Times are seconds since 1970 and end in ``_at``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Region = tuple[float, ...]
"""West, south, east, north in degrees; or polygons as one run of numbers, see `schemas.REGION_TYPE`."""

DAY_S = 86_400.0
MAX_INT64 = (1 << 63) - 1


class NewSubscription(NamedTuple):
    """A subscription to store. The caller has checked the query; the store assigns the id."""

    query: str
    owner: str = ""
    region: Region | None = None
    cost: int = 1  # in units, see `query/cost.py`


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stored subscription. ``removed_at`` is None while it is live."""

    id: int
    owner: str
    query: str
    region: Region | None
    created_at: float
    removed_at: float | None
    cost: int = 1


class SubscriptionChange(NamedTuple):
    """One row of the change log, ordered by position."""

    position: int
    kind: Literal["add", "remove"]
    subscription: int
    at: float


class PricedChange(NamedTuple):
    """A change with what is needed to decide when it is applied. The owner of a deleted row is empty."""

    position: int
    kind: Literal["add", "remove"]
    subscription: int
    owner: str
    cost: int


class NetChanges(NamedTuple):
    """Current state of the subscriptions that changed after a position: the live ones, and the ids of removed ones."""

    added: tuple[Subscription, ...]
    removed: tuple[int, ...]
    position: int


class BatchPin(NamedTuple):
    """The versions of a batch, as recorded when it first began. ``done``: the batch is committed already.

    ``shed`` is the load-shedding decision, in the format of the caller that began the batch.
    """

    index_version: int
    plan_version: int
    done: bool
    replay: bool
    shed: str = ""


class CommitResult(NamedTuple):
    """Rows that a commit added, and what a sink received instead.

    ``known`` counts skipped matches: stored before, or of a removed subscription.
    """

    posts: int
    matches: int
    known: int
    rejected: int


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """One match of a subscription with its post. The id of the post keeps its original type and value."""

    cursor: int
    post_id: int | str
    text: str | None
    time: str | None
    author: str | None
    lang: str | None
    lat: float | None
    lon: float | None
    tags: list[str]
    title: str | None
    link: str | None
    arrived_at: float
    index_version: int
    batch: int


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One row of the batch ledger."""

    stream: str
    batch: int
    index_version: int
    plan_version: int
    state: Literal["begun", "done"]
    started_at: float
    finished_at: float | None
    posts: int
    matches: int
    rejected: int
    metrics: Mapping[str, object]
    shed: str = ""


class RejectedRow(NamedTuple):
    """A row that was left out, with the reason; the excerpt is its beginning."""

    number: int
    stream: str
    batch: int
    source: str | None
    source_row: int | None
    reason: str
    excerpt: str | None


@dataclass(frozen=True, slots=True)
class StoreSizes:
    """Rows of each table, and bytes on disk (for SQLite including its write-ahead log)."""

    subscriptions: int
    posts: int
    matches: int
    batches: int
    rejected: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of what a store keeps. Age counts from when a match was stored, accurate to a minute."""

    max_matches_per_subscription: int = 10_000
    max_age_s: float = 30 * DAY_S
    max_batches: int = 10_000
    max_rejected: int = 10_000


class RetentionResult(NamedTuple):
    """Rows that a retention run deleted."""

    matches: int
    posts: int
    batches: int
    rejected: int


def fits_int64(number: int) -> bool:
    """Return whether the databases can hold this number; others cannot be the id of a row."""
    return -MAX_INT64 - 1 <= number <= MAX_INT64
