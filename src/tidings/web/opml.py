"""Import and export the feeds of an owner as OPML, the list format of feed readers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from tidings.crawl.opml import OpmlFeed, read_opml, write_opml
from tidings.errors import InputError, QuotaExceeded
from tidings.net.urls import normalize_url
from tidings.web import schemas
from tidings.web.context import Context, Owner, OwnerInTurn
from tidings.web.errors import error_responses
from tidings.web.feeds import FeedAdder, to_feed_out
from tidings.web.request_body import describe_body, large_body

_MEDIA_TYPE = "text/x-opml"
_MAX_REPORTED = 100
_RETRY_S = 5.0
_OPML_SCHEMA: dict[str, Any] = {"type": "string"}

router = APIRouter(prefix="/api", tags=["feeds"], responses=error_responses(401, 429))


@router.get("/opml", response_class=Response, responses={200: {"content": {_MEDIA_TYPE: {"schema": _OPML_SCHEMA}}}})
def export_feeds(owner: OwnerInTurn, context: Context) -> Response:
    """Export the feeds that you follow, for other feed readers."""
    feeds = [to_feed_out(context, owner, feed) for feed in context.read_store.feeds.all(owner)]
    document = write_opml(OpmlFeed(feed.url, feed.title, feed.site) for feed in feeds)
    name = {"Content-Disposition": 'attachment; filename="tidings.opml"'}
    return Response(document, media_type=f"{_MEDIA_TYPE}; charset=utf-8", headers=name)


async def _single_import(owner: Owner, context: Context) -> AsyncIterator[None]:
    """Limit an owner to one import at a time, from before its body is read until its feeds are added."""
    if owner in context.importing_owners:
        raise QuotaExceeded("An import is already running. Try again later.", retry_after_s=_RETRY_S)
    context.importing_owners.add(owner)
    try:
        yield
    finally:
        context.importing_owners.discard(owner)


@router.post(
    "/opml",
    dependencies=[Depends(_single_import)],
    openapi_extra=describe_body(_MEDIA_TYPE, _OPML_SCHEMA),
    responses=error_responses(413, 422, 429, 503),
)
def import_feeds(
    feeds: Annotated[list[OpmlFeed], large_body(read_opml)], owner: OwnerInTurn, context: Context
) -> schemas.ImportResult:
    """Follow all feeds of a list within your quota; rejected feeds are reported."""
    with context.feed_lock(owner):
        return _add_feeds(FeedAdder(context, owner), feeds)


def _add_feeds(adder: FeedAdder, feeds: list[OpmlFeed]) -> schemas.ImportResult:
    added, rejected = set[str](), []
    for feed in feeds:
        try:
            if (url := normalize_url(feed.url)) not in added:  # a list with many spellings of one URL costs little
                adder.add(url, feed.title)
                added.add(url)
        except QuotaExceeded as error:
            if not added:
                raise
            rejected.append(str(error))
            break
        except InputError as error:
            rejected.append(str(error))
    return schemas.ImportResult(added=len(added), rejected=rejected[:_MAX_REPORTED])
