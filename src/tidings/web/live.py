"""Matches as server-sent events. The id of an event is its cursor: a client that reconnects continues where it was,
because browsers send `Last-Event-ID`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from tidings.errors import StoreError, UnknownSubscription
from tidings.store.rows import StoredMatch
from tidings.web import schemas
from tidings.web.context import MAX_RESPONSE_CHARACTERS, AppContext, Context, Owner
from tidings.web.errors import HttpError, error_responses, not_found_error
from tidings.web.feed_routes import Secret
from tidings.web.schemas import SubscriptionId

_PAGE_ROWS = 100
_RECHECK_S = 15.0  # how often permission is checked without new matches
_MAX_READERS_PER_SUBSCRIPTION, _MAX_READERS = 20, 2_000
_RETRY_MS = 2_000
_CURSOR = re.compile("[0-9]{1,18}")
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Robots-Tag": "noindex"}

LastEventId = Annotated[
    str | None, Header(max_length=100, description="The id of the last event received; continue after it.")
]
Last = Annotated[
    int, Query(ge=0, le=1_000, description="Without Last-Event-ID: number of stored matches to start with.")
]

router = APIRouter(tags=["live"])
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events named `match`."}
}


@router.get(
    "/api/subscriptions/{id}/live",
    responses={**_EVENTS, **error_responses(401, 404, 422, 429)},
    response_class=EventSourceResponse,
)
async def stream_matches(
    id: SubscriptionId,
    owner: Owner,
    request: Request,
    context: Context,
    last: Last = 0,
    last_event_id: LastEventId = None,
) -> EventSourceResponse:
    """Stream the matches of a subscription as they are stored."""
    context.read_store.subscriptions.get(id, owner)
    token = request.headers["authorization"].partition(" ")[2].strip()  # it may be revoked while the stream is open
    return _start_stream(context, id, last_event_id, last, lambda: context.read_store.accounts.owner_of(token) == owner)


@router.get(
    "/read/{secret}/live", responses={**_EVENTS, **error_responses(404, 422, 429)}, response_class=EventSourceResponse
)
async def stream_matches_by_url(
    secret: Secret, context: Context, last: Last = 0, last_event_id: LastEventId = None
) -> EventSourceResponse:
    """Stream the matches of a subscription, by its secret URL."""
    feed_urls = context.read_store.feed_urls
    target = feed_urls.find(secret)
    if target is None:
        raise not_found_error("feed")
    return _start_stream(context, target.subscription, last_event_id, last, lambda: feed_urls.find(secret) == target)


def _start_stream(
    context: AppContext, subscription: int, last_event_id: str | None, last: int, is_allowed: Callable[[], bool]
) -> EventSourceResponse:
    if context.live_readers[subscription] >= _MAX_READERS_PER_SUBSCRIPTION:
        raise HttpError(
            429, f"This subscription has {_MAX_READERS_PER_SUBSCRIPTION} live readers already. Close one first."
        )
    if context.live_readers.total() >= _MAX_READERS:
        raise HttpError(429, "The server has too many live readers. Poll the feed instead, or try again later.")
    context.live_readers[subscription] += 1  # before the first event, because other requests check it too
    events = _iterate_events(context, subscription, _parse_cursor(last_event_id), last, is_allowed)
    return _LiveResponse(context, subscription, events)


class _LiveResponse(EventSourceResponse):
    """The events of one reader, who is counted until they end."""

    def __init__(self, context: AppContext, subscription: int, events: AsyncIterator[ServerSentEvent]) -> None:
        super().__init__(events, headers=_HEADERS, ping=_RECHECK_S)
        self._live_readers, self._subscription = context.live_readers, subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live_readers[self._subscription] -= 1
            if not self._live_readers[self._subscription]:
                del self._live_readers[self._subscription]


def _parse_cursor(last_event_id: str | None) -> int | None:
    """Return the cursor to continue from; None for a new reader or an id that is not ours."""
    return int(last_event_id) if last_event_id and _CURSOR.fullmatch(last_event_id) else None


async def _iterate_events(
    context: AppContext, subscription: int, cursor: int | None, last: int, is_allowed: Callable[[], bool]
) -> AsyncIterator[ServerSentEvent]:
    """Yield matches after the cursor until the server stops, or until permission ends (event `gone`)."""
    page = []
    if cursor is None:
        page = await run_in_threadpool(_read_latest, context, subscription, max(last, 1))
        cursor = page[-1].cursor if page else 0
    cursor = min(cursor, context.read_store.matches.last_number())  # it may come from a store that was replaced
    yield ServerSentEvent(comment="tidings", retry=_RETRY_MS)  # every match stored after this line is sent
    for match in page if last else []:
        yield _to_event(match)
    while not context.notifier.is_closed:
        version = context.notifier.version
        matches = await run_in_threadpool(_read_since, context, subscription, cursor, is_allowed)
        if matches is None:
            yield ServerSentEvent(event="gone", data="")
            return
        for match in matches:
            yield _to_event(match)
            cursor = match.cursor
        if not matches:
            await context.notifier.wait_for_change(version, _RECHECK_S)


def _read_latest(context: AppContext, subscription: int, count: int) -> list[StoredMatch]:
    with suppress(UnknownSubscription):
        return context.read_store.matches.latest(subscription, count, max_characters=MAX_RESPONSE_CHARACTERS)
    return []


def _read_since(
    context: AppContext, subscription: int, cursor: int, is_allowed: Callable[[], bool]
) -> list[StoredMatch] | None:
    """Return the next page; None if reading is not permitted any more; no matches while the store is lost."""
    try:
        if is_allowed():
            matches = context.read_store.matches
            return matches.since(subscription, cursor, _PAGE_ROWS, max_characters=MAX_RESPONSE_CHARACTERS)
        return None
    except UnknownSubscription:
        return None
    except StoreError:
        return []


def _to_event(match: StoredMatch) -> ServerSentEvent:
    return ServerSentEvent(event="match", id=str(match.cursor), data=schemas.MatchOut.of(match).model_dump_json())
