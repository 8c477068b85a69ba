"""Matches as they are stored, as server-sent events. The id of an event is its cursor, so a reader that was cut off
goes on where it was: browsers send `Last-Event-ID` by themselves."""

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
from tidings.web.context import MOST_CHARACTERS, Here, Owner, Service
from tidings.web.errors import Refused, documented, missing
from tidings.web.feed_routes import Secret
from tidings.web.schemas import Identity

_PAGE = 100
_PATIENCE_S = 15.0  # then it is looked whether the reader may still listen
_AT_ONCE, _ALTOGETHER = 20, 2_000  # live readers of one subscription, and of all
_RETRY_MS = 2_000
_CURSOR = re.compile("[0-9]{1,18}")
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Robots-Tag": "noindex"}

LastEventId = Annotated[
    str | None, Header(max_length=100, description="The id of the last event that was seen; those after it follow.")
]
Last = Annotated[int, Query(ge=0, le=1_000, description="Without Last-Event-ID: begin with so many that are there.")]

router = APIRouter(tags=["live"])
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events named `match`."}
}


@router.get(
    "/api/subscriptions/{id}/live",
    responses={**_EVENTS, **documented(401, 404, 422, 429)},
    response_class=EventSourceResponse,
)
async def live(
    id: Identity, owner: Owner, request: Request, here: Here, last: Last = 0, last_event_id: LastEventId = None
) -> EventSourceResponse:
    """Its matches as they come."""
    here.reading.subscription(id, owner)
    token = request.headers["authorization"].partition(" ")[2].strip()  # it may be revoked meanwhile
    return _events(here, id, last_event_id, last, lambda: here.reading.accounts.owner_of(token) == owner)


@router.get(
    "/read/{secret}/live", responses={**_EVENTS, **documented(404, 422, 429)}, response_class=EventSourceResponse
)
async def live_by_address(
    secret: Secret, here: Here, last: Last = 0, last_event_id: LastEventId = None
) -> EventSourceResponse:
    """The matches as they come, for who knows the address."""
    found = here.reading.addresses.find(secret)
    if found is None:
        raise missing("feed")
    return _events(here, found.subscription, last_event_id, last, lambda: here.reading.addresses.find(secret) == found)


def _events(
    here: Service, subscription: int, last_event_id: str | None, last: int, is_allowed: Callable[[], bool]
) -> EventSourceResponse:
    if here.listening[subscription] >= _AT_ONCE:
        raise Refused(429, f"{_AT_ONCE} readers listen to this subscription already; close one first.")
    if here.listening.total() >= _ALTOGETHER:
        raise Refused(429, "As many readers listen as this server can take; poll the feed instead, or try again later.")
    here.listening[subscription] += 1  # now: others ask before this one's first event
    events = _follow(here, subscription, _cursor(last_event_id), last, is_allowed)
    return _Listening(here, subscription, events)


class _Listening(EventSourceResponse):
    """The events of one reader, who is counted until they end."""

    def __init__(self, here: Service, subscription: int, events: AsyncIterator[ServerSentEvent]) -> None:
        super().__init__(events, headers=_HEADERS, ping=_PATIENCE_S)
        self._listening, self._subscription = here.listening, subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listening[self._subscription] -= 1
            if not self._listening[self._subscription]:
                del self._listening[self._subscription]


def _cursor(last_event_id: str | None) -> int | None:
    """Where to go on; None if the reader begins, or says something that we never said."""
    return int(last_event_id) if last_event_id and _CURSOR.fullmatch(last_event_id) else None


async def _follow(
    here: Service, subscription: int, cursor: int | None, last: int, is_allowed: Callable[[], bool]
) -> AsyncIterator[ServerSentEvent]:
    """From the cursor on, for as long as it may be listened to; a last event `gone` when it may no longer."""
    page = []
    if cursor is None:
        page = await run_in_threadpool(_latest, here, subscription, max(last, 1))
        cursor = page[-1].cursor if page else 0
    cursor = min(cursor, here.reading.last_number())  # one of a store that was there before
    yield ServerSentEvent(comment="tidings", retry=_RETRY_MS)  # whoever hears this hears all that comes after it
    for match in page if last else []:
        yield _event(match)
    while not here.pulse.is_over:
        beats = here.pulse.beats
        found = await run_in_threadpool(_after, here, subscription, cursor, is_allowed)
        if found is None:
            yield ServerSentEvent(event="gone", data="")
            return
        for match in found:
            yield _event(match)
            cursor = match.cursor
        if not found:
            await here.pulse.beyond(beats, _PATIENCE_S)


def _latest(here: Service, subscription: int, count: int) -> list[StoredMatch]:
    with suppress(UnknownSubscription):
        return here.reading.latest(subscription, count, most_characters=MOST_CHARACTERS)
    return []


def _after(here: Service, subscription: int, cursor: int, is_allowed: Callable[[], bool]) -> list[StoredMatch] | None:
    """The next page; None if there is nothing to be read any more. While the store is away nothing is new."""
    try:
        if is_allowed():
            return here.reading.matches(subscription, cursor, _PAGE, most_characters=MOST_CHARACTERS)
        return None
    except UnknownSubscription:
        return None
    except StoreError:
        return []


def _event(match: StoredMatch) -> ServerSentEvent:
    return ServerSentEvent(event="match", id=str(match.cursor), data=schemas.Match.of(match).model_dump_json())
