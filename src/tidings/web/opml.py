"""Import and export the feeds of an owner as OPML, the list format of feed readers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from tidings.crawl.opml import OpmlFeed, read_opml, write_opml
from tidings.errors import InputError, QuotaExceeded
from tidings.net.urls import normalize_url
from tidings.web import schemas
from tidings.web.context import Context, Owner
from tidings.web.errors import error_responses
from tidings.web.feeds import FeedAdder, to_feed_out

_MEDIA_TYPE = "text/x-opml"
_MAX_REPORTED = 100
_OPML_SCHEMA: dict[str, Any] = {"schema": {"type": "string"}}
_REQUEST = {"requestBody": {"required": True, "content": {_MEDIA_TYPE: _OPML_SCHEMA}}}

router = APIRouter(prefix="/api", tags=["feeds"], responses=error_responses(401))


async def _read_body(request: Request) -> bytes:
    return await request.body()


@router.get("/opml", response_class=Response, responses={200: {"content": {_MEDIA_TYPE: _OPML_SCHEMA}}})
def export_feeds(owner: Owner, context: Context) -> Response:
    """Export the feeds that you follow, for other feed readers."""
    feeds = [to_feed_out(context, owner, feed) for feed in context.read_store.feeds.all(owner)]
    document = write_opml(OpmlFeed(feed.url, feed.title, feed.site) for feed in feeds)
    name = {"Content-Disposition": 'attachment; filename="tidings.opml"'}
    return Response(document, media_type=f"{_MEDIA_TYPE}; charset=utf-8", headers=name)


@router.post("/opml", openapi_extra=_REQUEST, responses=error_responses(413, 422, 429))
def import_feeds(
    document: Annotated[bytes, Depends(_read_body)], owner: Owner, context: Context
) -> schemas.ImportResult:
    """Follow all feeds of a list within your quota; rejected feeds are reported."""
    added, rejected = set[str](), []
    with context.feed_lock:
        adder = FeedAdder(context, owner)
        for feed in read_opml(document):
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
