"""What the API takes and gives, as its description tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tidings.store.accounts import Account
from tidings.store.rows import StoredMatch
from tidings.text.sanitize import clean_text

_LARGEST = (1 << 63) - 1
Identity = Annotated[int, Path(ge=1, le=_LARGEST, description="The number of the thing.")]
Above = Annotated[int, Query(ge=0, le=_LARGEST, description="Only those after this number.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="At most so many.")]
Sides = tuple[float, float, float, float]
Region = Annotated[Sides | None, Field(description="Only posts from there: west, south, east, north in degrees.")]
ShownRegion = Annotated[
    Sides | dict[str, Any] | None,
    Field(description="Only posts from there: west, south, east, north in degrees, or GeoJSON of polygons."),
]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Wanted(_Shape):
    """A standing query."""

    query: Annotated[str, AfterValidator(clean_text)] = Field(
        max_length=10_000, description="As `tidings explain` understands it.", examples=["storm OR rain"]
    )
    region: Region = None


class Way(_Shape):
    """One way in which a post can match: everything in it at once."""

    text: str
    found_by: str = Field(description="The word such posts are found by.")


class Ignored(_Shape):
    """A piece of the query that says nothing."""

    piece: str
    start: int
    end: int
    reason: str


class Checked(_Shape):
    """How a query is understood, and how much it would have found lately."""

    query: str
    ways: list[Way] = Field(description="The normal form: a post matches when one of these holds.")
    ignored: list[Ignored]
    matches_a_day: float | None = Field(description="Estimated from a sample of what came; null before any post came.")
    posts_a_day: float | None
    history_hours: float = Field(description="How much of the past that is, up to a week.")
    sampled_posts: int


class Addresses(_Shape):
    """Where anybody who knows the address can read the matches."""

    rss: str
    atom: str
    json_: str = Field(alias="json")
    live: str = Field(description="Server-sent events; a browser needs no token for these.")


class Subscription(_Shape):
    """A standing query that is live."""

    id: int
    query: str
    region: ShownRegion
    created_at: datetime
    matches: int = Field(description="How many are kept.")
    addresses: Addresses


class Subscriptions(_Shape):
    """A page of subscriptions; ``next`` is what to give as `after` for the next page, null on the last one."""

    subscriptions: list[Subscription]
    next: int | None


class Match(_Shape):
    """A match with its post. Fields hold what the post said, as text: whoever shows it escapes it."""

    cursor: int
    post_id: int | str
    title: str | None
    text: str | None
    link: str | None
    author: str | None
    time: str | None
    lang: str | None
    lat: float | None
    lon: float | None
    tags: list[str]
    arrived_at: datetime
    index_version: int

    @classmethod
    def of(cls, match: StoredMatch) -> Match:
        told = {name: getattr(match, name) for name in cls.model_fields if name != "arrived_at"}
        return cls(**told, arrived_at=moment(match.arrived_at))


class Matches(_Shape):
    """A page of matches in the order of their cursors. Who goes on `after` ``cursor`` misses none, sees none twice."""

    matches: list[Match]
    cursor: int
    more: bool = Field(description="Whether there are more already.")


class NewPost(_Shape):
    """A post for the stream. Fields other than the text may be left out."""

    id: Annotated[str, Field(min_length=1, max_length=512)] | int | None = Field(
        None, description="Yours; the same id again is the same post. Left out, it is made from what the post says."
    )
    text: str = Field(max_length=1 << 20)
    title: str | None = Field(None, max_length=10_000)
    link: str | None = Field(None, max_length=4_096)
    author: str | None = Field(None, max_length=1_000)
    time: str | None = Field(None, max_length=100, description="When it was written, best as ISO 8601.")
    lang: str | None = Field(None, max_length=35)
    lat: float | None = Field(None, ge=-90, le=90)
    lon: float | None = Field(None, ge=-180, le=180)
    tags: list[Annotated[str, Field(max_length=1_000)]] = Field(default_factory=list, max_length=100)


class Published(_Shape):
    """Posts that are durable, and will be matched though the machine be switched off now."""

    accepted: int
    ids: list[str] = Field(description="Under which they are matched, in the order in which they were sent.")


class NewFeed(_Shape):
    """A feed to be crawled."""

    url: str = Field(max_length=2_048, description="Of the feed, or of a page that names one.")
    title: Annotated[str, AfterValidator(clean_text)] = Field("", max_length=1_000, description="What you call it.")


class Feed(_Shape):
    """A feed you follow, and how it is."""

    id: str
    url: str
    title: str
    site: str = Field(description="The page the feed belongs to; empty where it is not known.")
    state: Literal["new", "ok", "failing", "gone"]
    error: str = Field(description="Why it fails; empty while all is well.")
    added_at: datetime
    checked_at: datetime | None
    due_at: datetime | None = Field(description="When it is looked at next.")


class Feeds(_Shape):
    """All feeds you follow."""

    feeds: list[Feed]


class Imported(_Shape):
    """What became of a list of feeds."""

    added: int
    refused: list[str] = Field(description="A sentence for each that was not taken.")


class Usage(_Shape):
    """How much there is of something, and how much there may be."""

    used: int
    limit: int


class Me(_Shape):
    """Who asks, and what they have left."""

    name: str
    subscriptions: Usage
    feeds: Usage
    posts_today: Usage

    @classmethod
    def of(cls, account: Account, feeds: int) -> Me:
        quotas = account.quotas
        return cls(
            name=account.name,
            subscriptions=Usage(used=account.subscriptions, limit=quotas.subscriptions),
            feeds=Usage(used=feeds, limit=quotas.feeds),
            posts_today=Usage(used=account.posts_today, limit=quotas.posts_a_day),
        )


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as they are told."""
    return datetime.fromtimestamp(seconds, UTC)
