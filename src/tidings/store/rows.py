"""What goes into a store and comes out of it, row by row. Times are seconds since 1970 and end in ``_at``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Region = tuple[float, ...]
"""West, south, east, north in degrees; or polygons as one run of numbers, as `model.REGION_TYPE` tells."""

DAY_S = 86_400.0


class NewSubscription(NamedTuple):
    """A subscription to be stored; the store gives it its id. The query was checked by the caller."""

    query: str
    owner: str = ""
    region: Region | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stored subscription. ``removed_at`` is None while it is live."""

    id: int
    owner: str
    query: str
    region: Region | None
    created_at: float
    removed_at: float | None


class Change(NamedTuple):
    """One line of the change log, in the order in which subscriptions came and went."""

    position: int
    kind: Literal["add", "remove"]
    subscription: int
    at: float


class Changed(NamedTuple):
    """The subscriptions that changed after some position, as they are now: those there, and the ids of those gone."""

    added: tuple[Subscription, ...]
    removed: tuple[int, ...]
    position: int


class Pin(NamedTuple):
    """The versions a batch uses: those recorded when it was first begun. ``done``: it is stored already.

    ``shed`` says what it sheds, in the words of who began it.
    """

    index_version: int
    plan_version: int
    done: bool
    replay: bool
    shed: str = ""


class Stored(NamedTuple):
    """What a commit added. ``known`` counts the matches it left out: stored already, or of a removed subscription."""

    posts: int
    matches: int
    known: int
    rejected: int


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """One match of a subscription with its post. The post's id has the type and value it came with."""

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
class Batch:
    """One line of the batch ledger."""

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
    figures: Mapping[str, object]
    shed: str = ""


class Rejected(NamedTuple):
    """A row that was left out, and why; the excerpt is its beginning."""

    number: int
    stream: str
    batch: int
    source: str | None
    source_row: int | None
    reason: str
    excerpt: str | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows of each table and bytes on disk (for SQLite with its write-ahead log)."""

    subscriptions: int
    posts: int
    matches: int
    batches: int
    rejected: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Retention:
    """How much a store keeps. Age counts from the moment a match was stored, exact to a minute."""

    max_matches_per_subscription: int = 10_000
    max_age_s: float = 30 * DAY_S
    max_batches: int = 10_000
    max_rejected: int = 10_000


class Forgotten(NamedTuple):
    """What a retention removed."""

    matches: int
    posts: int
    batches: int
    rejected: int
