"""What anybody who knows the secret address of a subscription can read there: RSS, Atom, JSON Feed.

A reader that asks again and again costs a few short looks into the store, and no write, while there is nothing new.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from tidings.delivery.feeds import atom, json_feed, rss
from tidings.delivery.feeds.model import Document, document
from tidings.errors import TidingsError, UnknownSubscription
from tidings.store.feed_urls import Addressed, Newest
from tidings.web.context import MOST_CHARACTERS, Here, Service
from tidings.web.errors import documented, missing, told

Secret = Annotated[str, Path(description="The secret part of the address.")]
_ENTRIES = 100
_FORMAT = 1  # counted up when the documents change though their matches do not
_HEADERS = {"Cache-Control": "private, max-age=0, must-revalidate", "X-Robots-Tag": "noindex"}


router = APIRouter(prefix="/read", tags=["reading"])


class _Kind(NamedTuple):
    name: str
    media_type: str
    write: Callable[[Document], bytes]


_RSS = _Kind("rss", rss.MEDIA_TYPE, rss.rss)
_ATOM = _Kind("atom", atom.MEDIA_TYPE, atom.atom)
_JSON = _Kind("json", json_feed.MEDIA_TYPE, json_feed.json_feed)
_KINDS = {kind.name: kind for kind in (_RSS, _ATOM, _JSON)}
_POLL = re.compile("/read/([^/]+)/(rss|atom|json)")


class Straight:
    """In front of the app: polls go straight to their answer. Routing and its parameters took longer than that."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _POLL.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await _answer(self._service, request, found[1], _KINDS[found[2]])
        except TidingsError as error:
            answer = told(request, error)
        await answer(scope, receive, send)


def _described(kind: _Kind) -> dict[int | str, dict[str, Any]]:
    schema = {"type": "object"} if kind is _JSON else {"type": "string"}
    return {
        200: {"content": {kind.media_type: {"schema": schema}}, "description": "The newest matches, newest first."},
        304: {"description": "Nothing is new."},
        **documented(404),
    }


@router.head("/{secret}/rss", include_in_schema=False)
@router.get("/{secret}/rss", responses=_described(_RSS), response_class=Response)
async def as_rss(secret: Secret, request: Request, here: Here) -> Response:
    """The newest matches as RSS 2.0."""
    return await _answer(here, request, secret, _RSS)


@router.head("/{secret}/atom", include_in_schema=False)
@router.get("/{secret}/atom", responses=_described(_ATOM), response_class=Response)
async def as_atom(secret: Secret, request: Request, here: Here) -> Response:
    """The newest matches as Atom 1.0."""
    return await _answer(here, request, secret, _ATOM)


@router.head("/{secret}/json", include_in_schema=False)
@router.get("/{secret}/json", responses=_described(_JSON), response_class=Response)
async def as_json(secret: Secret, request: Request, here: Here) -> Response:
    """The newest matches as JSON Feed 1.1."""
    return await _answer(here, request, secret, _JSON)


async def _answer(here: Service, request: Request, secret: str, kind: _Kind) -> Response:
    """The document, or that the reader has it already."""
    found = here.reading.addresses.find(secret)
    if found is None:
        raise missing("feed")
    newest = here.reading.addresses.newest(found)
    headers = {**_HEADERS, "ETag": _etag(found, newest, kind), "Last-Modified": _last_modified(newest.at)}
    if _has_it(request, headers["ETag"], newest.at):
        return Response(status_code=304, headers=headers)
    body = await run_in_threadpool(_written, here, found, newest, kind, f"{here.public_url}/read/{secret}/{kind.name}")
    return Response(body, media_type=f"{kind.media_type}; charset=utf-8", headers=headers)


def _written(here: Service, found: Addressed, newest: Newest, kind: _Kind, address: str) -> bytes:
    try:
        matches = here.reading.latest(found.subscription, _ENTRIES, most_characters=MOST_CHARACTERS)
    except UnknownSubscription as gone:  # between the two looks
        raise missing("feed") from gone
    shown = [match for match in matches if match.cursor <= newest.cursor]  # what the ETag stands for
    home = f"{here.public_url}/"
    return kind.write(document(found.subscription, found.query, shown, address, home, newest.at))


def _etag(found: Addressed, newest: Newest, kind: _Kind) -> str:
    """Weak: that old matches are forgotten does not make a document new."""
    return f'W/"{kind.name}{_FORMAT}-{found.subscription}-{newest.cursor}"'


def _last_modified(at: float) -> str:
    """HTTP counts whole seconds. Of a second that is not over yet, the one before is told: more may come in it."""
    whole = min(int(at), int(time.time()) - 1)
    return format_datetime(datetime.fromtimestamp(whole, UTC), usegmt=True)


def _has_it(request: Request, etag: str, at: float) -> bool:
    """As RFC 9110 has it: where the reader names documents it has, their date does not count."""
    known = request.headers.get("if-none-match")
    if known is not None:
        own = etag.removeprefix("W/")
        return any(one.strip().removeprefix("W/") in (own, "*") for one in known.split(","))
    since = request.headers.get("if-modified-since")
    try:
        return since is not None and int(at) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False
