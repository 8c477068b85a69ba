"""Request and response models of the API. Their texts appear in its OpenAPI description."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tidings.store.accounts import Account
from tidings.store.rows import MAX_INT64, StoredMatch
from tidings.text.sanitize import clean_text
from tidings.web.stream_phase import ShownPhase

SubscriptionId = Annotated[int, Path(ge=1, le=MAX_INT64, description="The id of the subscription.")]
After = Annotated[int, Query(ge=0, le=MAX_INT64, description="Return only items after this id or cursor.")]
Before = Annotated[
    int | None, Query(ge=1, le=MAX_INT64, description="Return the newest items before this cursor; `after` is ignored.")
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of items.")]
Box = tuple[float, float, float, float]
BoxIn = Annotated[Box | None, Field(description="Only posts in this box: west, south, east, north in degrees.")]
RegionOut = Annotated[
    Box | dict[str, Any] | None,
    Field(description="Only posts in this region: west, south, east, north in degrees, or GeoJSON polygons."),
]


class ApiModel(BaseModel):
    """The base of all models: unknown fields and non-finite numbers are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class QueryIn(ApiModel):
    """A standing query."""

    query: Annotated[str, AfterValidator(clean_text)] = Field(
        max_length=10_000, description="In the query language, see `tidings explain`.", examples=["storm OR rain"]
    )
    region: BoxIn = None


class ConjunctionOut(ApiModel):
    """One conjunction of a query: all its literals must match."""

    text: str
    anchor: str = Field(description="The term that such posts are found by.")


class IgnoredPart(ApiModel):
    """A part of the query that has no effect."""

    piece: str
    start: int
    end: int
    reason: str


class QueryCheck(ApiModel):
    """How a query is understood, and how many recent posts it would have matched."""

    query: str
    conjunctions: list[ConjunctionOut] = Field(description="A post matches if one of these matches.")
    ignored: list[IgnoredPart]
    cost: int = Field(description="What the query counts of the quota `query_cost`; a plain word costs 1.")
    matches_per_day: float | None = Field(description="Estimated from a sample of posts; null before the first post.")
    posts_per_day: float | None
    history_hours: float = Field(description="The time that the sample covers, up to a week.")
    sampled_posts: int


class FeedUrlsOut(ApiModel):
    """The secret URLs of a subscription. They give access to its matches without a token."""

    rss: str
    atom: str
    json_: str = Field(alias="json")
    live: str = Field(description="Server-sent events; a browser needs no token for these.")


class SubscriptionOut(ApiModel):
    """A live subscription."""

    id: int
    query: str
    region: RegionOut
    created_at: datetime
    matches: int = Field(description="Number of stored matches.")
    addresses: FeedUrlsOut


class SubscriptionPage(ApiModel):
    """A page of subscriptions; ``next`` is the `after` of the next page, null on the last page."""

    subscriptions: list[SubscriptionOut]
    next: int | None


class MatchOut(ApiModel):
    """A match with its post. Fields are plain text from the post; clients must escape them."""

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
    def of(cls, match: StoredMatch) -> MatchOut:
        fields = {name: getattr(match, name) for name in cls.model_fields if name != "arrived_at"}
        return cls(**fields, arrived_at=to_datetime(match.arrived_at))


class MatchPage(ApiModel):
    """A page of matches, ordered by cursor. No match is missed or repeated if you continue with ``cursor``.

    It is the `after` of the next page, or the `before` of the previous page if the request had `before`.
    """

    matches: list[MatchOut]
    cursor: int
    more: bool = Field(description="Whether more matches are stored already.")


class StatusOut(ApiModel):
    """What the service does."""

    stream: ShownPhase = Field(description="The phase of the stream; `external` if this server does not run it.")


class ChangedMatches(ApiModel):
    """The event `matches`: a subscription has new matches."""

    subscription: int
    matches: int = Field(description="Number of stored matches.")


class NewPost(ApiModel):
    """A post for the stream. Only the text is required."""

    id: Annotated[str, Field(min_length=1, max_length=512)] | int | None = Field(
        None, description="Your id; the same id is the same post. Default: derived from the content of the post."
    )
    text: str = Field(max_length=1 << 20)
    title: str | None = Field(None, max_length=10_000)
    link: str | None = Field(None, max_length=4_096)
    author: str | None = Field(None, max_length=1_000)
    time: str | None = Field(None, max_length=100, description="When it was written, preferably as ISO 8601.")
    lang: str | None = Field(None, max_length=35)
    lat: float | None = Field(None, json_schema_extra={"minimum": -90, "maximum": 90})  # checked by ingest.validation
    lon: float | None = Field(None, json_schema_extra={"minimum": -180, "maximum": 180})
    tags: list[Annotated[str, Field(max_length=1_000)]] = Field(default_factory=list, max_length=100)


class PublishedPosts(ApiModel):
    """Posts that are durable: they will be matched even if the machine fails now."""

    accepted: int
    ids: list[str] = Field(description="Their ids in the stream, in the order of the request.")


class NewFeed(ApiModel):
    """A feed to follow."""

    url: str = Field(max_length=2_048, description="The URL of the feed, or of a page that links to one.")
    title: Annotated[str, AfterValidator(clean_text)] = Field(
        "", max_length=1_000, description="Title to use instead of the feed's own."
    )


class FeedOut(ApiModel):
    """A feed that you follow, and its state."""

    id: str
    url: str
    title: str
    site: str = Field(description="The page the feed belongs to; empty if it is not known.")
    state: Literal["new", "ok", "failing", "gone"]
    error: str = Field(description="Why the last visit failed, or why the feed has no items; otherwise empty.")
    added_at: datetime
    checked_at: datetime | None
    due_at: datetime | None = Field(description="The time of the next visit.")


class FeedList(ApiModel):
    """All feeds that you follow."""

    feeds: list[FeedOut]


class ImportResult(ApiModel):
    """The result of importing a list of feeds."""

    added: int
    rejected: list[str] = Field(description="One sentence per rejected feed.")


class Usage(ApiModel):
    """What an owner uses of a quota."""

    used: int
    limit: int


class AccountOut(ApiModel):
    """The owner of the token, with usage and quotas."""

    name: str
    subscriptions: Usage
    feeds: Usage
    posts_today: Usage
    query_cost: Usage

    @classmethod
    def of(cls, account: Account, feeds: int) -> AccountOut:
        quotas = account.quotas
        return cls(
            name=account.name,
            subscriptions=Usage(used=account.subscriptions, limit=quotas.subscriptions),
            feeds=Usage(used=feeds, limit=quotas.feeds),
            posts_today=Usage(used=account.posts_today, limit=quotas.posts_per_day),
            query_cost=Usage(used=account.query_cost, limit=quotas.query_cost),
        )


def to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
