"""Routes to follow, list and unfollow feeds. They never reveal other followers of a feed.

A feed is crawled once for all its followers. So each owner sees it under an id of its own, and as new until the first
visit after that owner followed it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from tidings.errors import QuotaExceeded
from tidings.net.urls import mask_userinfo
from tidings.store.feeds import FeedRow
from tidings.text.sanitize import clean_link, clean_text
from tidings.web import schemas
from tidings.web.context import AppContext, Context, OwnerInTurn
from tidings.web.errors import error_responses, not_found_error
from tidings.web.request_body import describe_json, json_body

_NewFeedBody = Annotated[schemas.NewFeed, json_body(schemas.NewFeed)]
_Id = Annotated[str, Path(max_length=100, description="The id of the feed.")]

router = APIRouter(prefix="/api", tags=["feeds"], responses=error_responses(401, 429))


@router.post(
    "/feeds", status_code=201, openapi_extra=describe_json(schemas.NewFeed), responses=error_responses(413, 422, 429)
)
def follow_feed(new_feed: _NewFeedBody, owner: OwnerInTurn, context: Context) -> schemas.FeedOut:
    """Follow a feed: its articles become posts. Following it again only changes its title."""
    with context.feed_lock(owner):
        number = FeedAdder(context, owner).add(new_feed.url, new_feed.title)
    return next(to_feed_out(context, owner, feed) for feed in context.write_store.feeds.all(owner) if feed.id == number)


@router.get("/feeds")
def list_feeds(owner: OwnerInTurn, context: Context) -> schemas.FeedList:
    """List the feeds that you follow, with their state."""
    return schemas.FeedList(feeds=[to_feed_out(context, owner, feed) for feed in context.read_store.feeds.all(owner)])


@router.get("/feeds/{id}", responses=error_responses(404, 422))
def get_feed(id: _Id, owner: OwnerInTurn, context: Context) -> schemas.FeedOut:
    """Return one feed with its state."""
    return to_feed_out(context, owner, _find_feed(context, owner, id))


@router.delete("/feeds/{id}", status_code=204, responses=error_responses(404, 422))
def unfollow_feed(id: _Id, owner: OwnerInTurn, context: Context) -> None:
    """Unfollow a feed."""
    context.write_store.feeds.remove(_find_feed(context, owner, id).id, owner)


class FeedAdder:
    """Adds feeds within the quota of an owner, which it reads once; the caller holds its feed lock."""

    def __init__(self, context: AppContext, owner: str) -> None:
        self._feeds, self._owner = context.write_store.feeds, owner
        self._limit = context.read_store.accounts.get(owner).quotas.feeds
        self._followed = {feed.id for feed in self._feeds.all(owner)}

    def add(self, url: str, title: str) -> int:
        """Follow a feed and return its number. Raises QuotaExceeded unless it is followed already."""
        number = self._feeds.add(url, self._owner, title)
        if number not in self._followed and len(self._followed) >= self._limit:
            self._feeds.remove(number, self._owner)
            raise QuotaExceeded(f"Feed quota reached ({self._limit:,}). Remove a feed first.")
        self._followed.add(number)
        return number


def _find_feed(context: AppContext, owner: str, opaque_id: str) -> FeedRow:
    to_opaque_id = context.read_store.accounts.opaque_id
    for feed in context.read_store.feeds.all(owner):
        if to_opaque_id(owner, feed.id) == opaque_id:
            return feed
    raise not_found_error("feed")


def to_feed_out(context: AppContext, owner: str, feed: FeedRow) -> schemas.FeedOut:
    """Return a feed as one owner sees it."""
    is_visited = feed.checked_at is not None and feed.checked_at >= feed.added_at
    return schemas.FeedOut(
        id=context.read_store.accounts.opaque_id(owner, feed.id),
        url=mask_userinfo(feed.url if is_visited else feed.given or feed.url),  # redirects were found for others
        title=clean_text(feed.title) if is_visited else "",
        site=(clean_link(feed.site) or "") if is_visited else "",
        state=feed.state if is_visited else "new",
        error=clean_text(feed.error) if is_visited else "",
        added_at=schemas.to_datetime(feed.added_at),
        checked_at=schemas.to_datetime(feed.checked_at) if is_visited and feed.checked_at is not None else None,
        due_at=schemas.to_datetime(feed.due_at) if is_visited and feed.due_at is not None else None,
    )
