"""Feeds of a subscription under its secret URL: RSS, Atom, JSON Feed.

A feed reader that polls without news costs two short queries and no write. These are plain Starlette routes: FastAPI's
parameters and dependencies made an unchanged feed (304) 1.6 times as expensive.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Annotated, Any, NamedTuple

from fastapi import Path
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings.delivery.feeds import atom, json_feed, rss
from tidings.delivery.feeds.model import FeedDocument, build_document
from tidings.errors import UnknownSubscription
from tidings.store.feed_urls import FeedUrlTarget, NewestMatch
from tidings.web.context import MAX_RESPONSE_CHARACTERS, AppContext
from tidings.web.errors import ErrorResponse, not_found_error

Secret = Annotated[str, Path(description="The secret part of the feed URL.")]
_ENTRIES = 100
_FORMAT_VERSION = 2  # increase it when documents change although their matches do not
_HEADERS = {"Cache-Control": "private, max-age=0, must-revalidate", "X-Robots-Tag": "noindex"}


class _FeedFormat(NamedTuple):
    name: str
    title: str
    media_type: str
    write: Callable[[FeedDocument], bytes]


_FORMATS = (
    _FeedFormat("rss", "RSS 2.0", rss.MEDIA_TYPE, rss.write_rss),
    _FeedFormat("atom", "Atom 1.0", atom.MEDIA_TYPE, atom.write_atom),
    _FeedFormat("json", "JSON Feed 1.1", json_feed.MEDIA_TYPE, json_feed.write_json_feed),
)


def feed_routes() -> list[Route]:
    """Return one route per format, for GET and HEAD."""
    return [Route(_path(feed_format), _endpoint(feed_format), methods=["GET"]) for feed_format in _FORMATS]


def _path(feed_format: _FeedFormat) -> str:
    return f"/read/{{secret}}/{feed_format.name}"


def _endpoint(feed_format: _FeedFormat) -> Callable[[Request], Awaitable[Response]]:
    async def read_feed(request: Request) -> Response:
        return await _respond(request.app.state.context, request, request.path_params["secret"], feed_format)

    return read_feed


async def _respond(context: AppContext, request: Request, secret: str, feed_format: _FeedFormat) -> Response:
    """Return the document, or 304 if the reader has it already."""
    target, newest = await run_in_threadpool(_look_up, context, secret)
    etag = _etag(target, newest, feed_format)
    headers = {**_HEADERS, "ETag": etag, "Last-Modified": _last_modified(newest.at)}
    if _is_unchanged(request, etag, newest.at):
        return Response(status_code=304, headers=headers)
    async with context.feed_turns.turn(target.owner):
        body = await run_in_threadpool(_write_document, context, target, newest, secret, feed_format)
    return Response(body, media_type=f"{feed_format.media_type}; charset=utf-8", headers=headers)


def _look_up(context: AppContext, secret: str) -> tuple[FeedUrlTarget, NewestMatch]:
    """Return what the URL is for and its newest match. In a thread: another thread may be using the store."""
    target = context.read_store.feed_urls.find(secret)
    if target is None:
        raise not_found_error("feed")
    return target, context.read_store.feed_urls.newest_match(target)


def _write_document(
    context: AppContext, target: FeedUrlTarget, newest: NewestMatch, secret: str, feed_format: _FeedFormat
) -> bytes:
    try:
        matches = context.read_store.matches.latest(
            target.subscription, _ENTRIES, max_characters=MAX_RESPONSE_CHARACTERS
        )
    except UnknownSubscription as removed:  # between the two queries
        raise not_found_error("feed") from removed
    covered = [match for match in matches if match.cursor <= newest.cursor]  # by the ETag
    address, home = f"{context.public_url}/read/{secret}/{feed_format.name}", f"{context.public_url}/"
    return feed_format.write(build_document(target.subscription, target.query, covered, address, home, newest.at))


def _etag(target: FeedUrlTarget, newest: NewestMatch, feed_format: _FeedFormat) -> str:
    """Return a weak ETag: deleting old matches does not make a new document."""
    return f'W/"{feed_format.name}{_FORMAT_VERSION}-{target.subscription}-{newest.cursor}"'


def _last_modified(at: float) -> str:
    """Return whole seconds; for the current second the one before, because more matches may follow in it."""
    seconds = min(int(at), int(time.time()) - 1)
    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)


def _is_unchanged(request: Request, etag: str, at: float) -> bool:
    """Evaluate the conditional headers (RFC 9110): with If-None-Match, If-Modified-Since does not count."""
    known = request.headers.get("if-none-match")
    if known is not None:
        current = etag.removeprefix("W/")
        return any(candidate.strip().removeprefix("W/") in (current, "*") for candidate in known.split(","))
    since = request.headers.get("if-modified-since")
    try:
        return since is not None and int(at) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def describe_feed_routes() -> dict[str, Any]:
    """Return the OpenAPI paths of the feeds, which FastAPI does not generate for plain routes."""
    secret = {"name": "secret", "in": "path", "required": True, "description": "The secret part of the feed URL."}
    error = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorResponse.__name__}"}}}
    paths = {}
    for feed_format in _FORMATS:
        schema = {"type": "object" if feed_format.name == "json" else "string"}
        operation = {
            "tags": ["feeds of subscriptions"],
            "summary": f"The newest matches as {feed_format.title}, newest first.",
            "operationId": f"read_{feed_format.name}",
            "parameters": [{**secret, "schema": {"type": "string"}}],
            "responses": {
                "200": {"description": "The document.", "content": {feed_format.media_type: {"schema": schema}}},
                "304": {"description": "Nothing has changed."},
                "404": {"description": "Not Found", "content": error},
                "429": {"description": "Too Many Requests", "content": error},
            },
        }
        paths[_path(feed_format)] = {"get": operation}
    return paths
