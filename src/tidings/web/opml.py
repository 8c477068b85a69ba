"""The feeds of an owner as OPML, the list that feed readers exchange: out and in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from tidings.crawl.opml import Listed, read_opml, write_opml
from tidings.errors import InputError, QuotaExceeded
from tidings.net.urls import checked_url
from tidings.web import schemas
from tidings.web.context import Here, Owner
from tidings.web.errors import documented
from tidings.web.feeds import Adding, shown

_MEDIA_TYPE = "text/x-opml"
_TOLD = 100  # refusals
_LIST: dict[str, Any] = {"schema": {"type": "string"}}
_SENT = {"requestBody": {"required": True, "content": {_MEDIA_TYPE: _LIST}}}

router = APIRouter(prefix="/api", tags=["feeds"], responses=documented(401))


async def _body(request: Request) -> bytes:
    return await request.body()


@router.get("/opml", response_class=Response, responses={200: {"content": {_MEDIA_TYPE: _LIST}}})
def exported(owner: Owner, here: Here) -> Response:
    """The feeds you follow, as a list other readers understand."""
    feeds = [shown(here, owner, feed) for feed in here.reading.feeds(owner)]
    document = write_opml(Listed(feed.url, feed.title, feed.site) for feed in feeds)
    name = {"Content-Disposition": 'attachment; filename="tidings.opml"'}
    return Response(document, media_type=f"{_MEDIA_TYPE}; charset=utf-8", headers=name)


@router.post("/opml", openapi_extra=_SENT, responses=documented(413, 422, 429))
def imported(document: Annotated[bytes, Depends(_body)], owner: Owner, here: Here) -> schemas.Imported:
    """Follow all feeds of a list, as far as your quota goes; what is refused is told."""
    added, refused = set[str](), []
    with here.adding_feeds:
        adding = Adding(here, owner)
        for one in read_opml(document):
            try:
                if (url := checked_url(one.url)) not in added:  # spelt in many ways, one feed would be stored all day
                    adding.add(url, one.title)
                    added.add(url)
            except QuotaExceeded as error:
                if not added:
                    raise
                refused.append(str(error))
                break
            except InputError as error:
                refused.append(str(error))
    return schemas.Imported(added=len(added), refused=refused[:_TOLD])
