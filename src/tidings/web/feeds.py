"""Feeds: add, list, look after, remove. Who else follows a feed, or whether anybody did before, is not told.

A feed is crawled once for all who follow it. So it is shown under an id of its owner's own, and as new until it was
visited after that owner added it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from tidings.errors import QuotaExceeded
from tidings.store.feeds import Feed
from tidings.text.sanitize import clean_link, clean_text
from tidings.web import schemas
from tidings.web.context import Here, Owner, Service
from tidings.web.errors import documented, missing

_Id = Annotated[str, Path(max_length=100, description="The id of the feed.")]

router = APIRouter(prefix="/api", tags=["feeds"], responses=documented(401))


@router.post("/feeds", status_code=201, responses=documented(422, 429))
def follow(wanted: schemas.NewFeed, owner: Owner, here: Here) -> schemas.Feed:
    """Follow a feed: its articles become posts. Following it again only changes what you call it."""
    number = add(here, owner, wanted.url, wanted.title)
    return next(shown(here, owner, feed) for feed in here.writing.feeds(owner) if feed.id == number)


@router.get("/feeds")
def feeds(owner: Owner, here: Here) -> schemas.Feeds:
    """The feeds you follow, and how they are."""
    return schemas.Feeds(feeds=[shown(here, owner, feed) for feed in here.reading.feeds(owner)])


@router.get("/feeds/{id}", responses=documented(404, 422))
def feed(id: _Id, owner: Owner, here: Here) -> schemas.Feed:
    """How one of them is."""
    return shown(here, owner, _found(here, owner, id))


@router.delete("/feeds/{id}", status_code=204, responses=documented(404, 422))
def unfollow(id: _Id, owner: Owner, here: Here) -> None:
    """Follow it no longer."""
    here.writing.remove_feed(_found(here, owner, id).id, owner)


def add(here: Service, owner: str, url: str, title: str) -> int:
    """Add it within the owner's quota; its number."""
    with here.adding_feeds:
        return Adding(here, owner).add(url, title)


class Adding:
    """Adding feeds one after the other while nobody else does (`adding_feeds` is held); they are counted once."""

    def __init__(self, here: Service, owner: str) -> None:
        self._store, self._owner = here.writing, owner
        self._limit = here.reading.accounts.account(owner).quotas.feeds
        self._followed = {feed.id for feed in here.writing.feeds(owner)}

    def add(self, url: str, title: str) -> int:
        """Its number; QuotaExceeded beyond the quota, unless it is followed already."""
        number = self._store.add_feed(url, self._owner, title)
        if number not in self._followed and len(self._followed) >= self._limit:
            self._store.remove_feed(number, self._owner)
            raise QuotaExceeded(f"You may follow {self._limit:,} feeds and follow them all; remove one first.")
        self._followed.add(number)
        return number


def _found(here: Service, owner: str, identity: str) -> Feed:
    disguised = here.reading.accounts.disguised
    for one in here.reading.feeds(owner):
        if disguised(owner, one.id) == identity:
            return one
    raise missing("feed")


def shown(here: Service, owner: str, feed: Feed) -> schemas.Feed:
    """As its owner sees it."""
    is_known = feed.checked_at is not None and feed.checked_at >= feed.added_at
    return schemas.Feed(
        id=here.reading.accounts.disguised(owner, feed.id),
        url=feed.url if is_known else feed.given or feed.url,  # where it moved to, it moved for others
        title=clean_text(feed.title) if is_known else "",
        site=(clean_link(feed.site) or "") if is_known else "",
        state=feed.state if is_known else "new",
        error=clean_text(feed.error) if is_known else "",
        added_at=schemas.moment(feed.added_at),
        checked_at=schemas.moment(feed.checked_at) if is_known and feed.checked_at is not None else None,
        due_at=schemas.moment(feed.due_at) if is_known and feed.due_at is not None else None,
    )
