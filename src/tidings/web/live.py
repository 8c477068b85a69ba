"""Matches as server-sent events. The id of an event is its cursor: a client that reconnects continues where it was,
because browsers send `Last-Event-ID`."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from tidings.errors import StoreError, UnknownSubscription
from tidings.store.rows import StoredMatch
from tidings.web import schemas
from tidings.web.context import MAX_RESPONSE_CHARACTERS, AppContext, Context, Owner
from tidings.web.errors import error_responses, not_found_error
from tidings.web.feed_routes import Secret
from tidings.web.live_readers import PING_S, LiveResponse
from tidings.web.schemas import SubscriptionId

_PAGE_ROWS = 100
RETRY_MS = 2_000
GONE = ServerSentEvent(event="gone", data="")
_CURSOR = re.compile("[0-9]{1,18}")
_Result = TypeVar("_Result")

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
    status_code=200,
    response_class=LiveResponse,
)
async def stream_matches(
    id: SubscriptionId,
    owner: Owner,
    request: Request,
    context: Context,
    last: Last = 0,
    last_event_id: LastEventId = None,
) -> LiveResponse:
    """Stream the matches of a subscription as they are stored."""
    await context.live_reads.run(owner, context.read_store.subscriptions.require, id, owner)
    is_allowed = token_check(context, request, owner)
    reader = _Reader(context, id, owner, is_allowed)
    return LiveResponse(context.live_readers, owner, id, _iterate_events(reader, last_event_id, last))


@router.get(
    "/read/{secret}/live",
    responses={**_EVENTS, **error_responses(404, 422, 429)},
    status_code=200,
    response_class=LiveResponse,
)
async def stream_matches_by_url(
    secret: Secret, context: Context, last: Last = 0, last_event_id: LastEventId = None
) -> LiveResponse:
    """Stream the matches of a subscription, by its secret URL."""
    feed_urls = context.read_store.feed_urls
    target = await run_in_threadpool(feed_urls.find, secret)
    if target is None:
        raise not_found_error("feed")
    reader = _Reader(context, target.subscription, target.owner, lambda: feed_urls.find(secret) == target)
    events = _iterate_events(reader, last_event_id, last)
    return LiveResponse(context.live_readers, target.owner, target.subscription, events)


def token_check(context: AppContext, request: Request, owner: str) -> Callable[[], bool]:
    """Return a function that tells whether the token of a request is still valid: streams outlive revocations."""
    token = request.headers["authorization"].partition(" ")[2].strip()
    return lambda: context.read_store.accounts.owner_of(token) == owner


def _parse_cursor(last_event_id: str | None) -> int | None:
    """Return the cursor to continue from; None for a new reader or an id that is not ours."""
    return int(last_event_id) if last_event_id and _CURSOR.fullmatch(last_event_id) else None


class _Page(NamedTuple):
    """Matches as events, encoded by the thread that reads them: the event loop serves everybody."""

    cursor: int  # of the last match
    events: bytes


class _Reader(NamedTuple):
    """Reads the matches of a subscription for as long as it is allowed."""

    context: AppContext
    subscription: int
    owner: str
    is_allowed: Callable[[], bool]

    async def run(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function that reads the store, in the turn of the owner."""
        return await self.context.live_reads.run(self.owner, function, *arguments)

    def start(self, cursor: int | None, last: int) -> _Page:
        """Return the cursor to continue after, and the stored matches to start with."""
        latest = self._read_latest(max(last, 1)) if cursor is None else []
        if cursor is None:
            cursor = latest[-1].cursor if latest else 0
        # a cursor may come from a store that was replaced
        return _Page(min(cursor, self.context.read_store.matches.last_number()), _encode(latest if last else []))

    def _read_latest(self, count: int) -> list[StoredMatch]:
        with suppress(UnknownSubscription):
            matches = self.context.read_store.matches
            return matches.latest(self.subscription, count, max_characters=MAX_RESPONSE_CHARACTERS)
        return []

    def read_since(self, cursor: int) -> _Page | None:
        """Return the next page; None if reading is not permitted any more; no matches while the store is lost."""
        matches = self.context.read_store.matches
        with suppress(StoreError):
            try:
                if self.is_allowed():
                    page = matches.since(self.subscription, cursor, _PAGE_ROWS, max_characters=MAX_RESPONSE_CHARACTERS)
                    return _Page(page[-1].cursor if page else cursor, _encode(page))
            except UnknownSubscription:
                pass
            return None
        return _Page(cursor, b"")


async def _iterate_events(
    reader: _Reader, last_event_id: str | None, last: int
) -> AsyncIterator[ServerSentEvent | bytes]:
    """Yield matches after the cursor until the server stops, or until permission ends (event `gone`)."""
    with reader.context.notifier.watch(reader.subscription) as watch:
        page = await reader.run(reader.start, _parse_cursor(last_event_id), last)
        yield ServerSentEvent(comment="tidings", retry=RETRY_MS)  # every match stored after this line is sent
        if page.events:
            yield page.events
        while not reader.context.notifier.is_closed:
            version = watch.version
            next_page = await reader.run(reader.read_since, page.cursor)
            if next_page is None:
                yield GONE
                return
            page = next_page
            if page.events:
                yield page.events
            else:
                await watch.wait_for_change(version, random.uniform(0.5, 1) * PING_S)  # not all at the same time


def _encode(matches: Sequence[StoredMatch]) -> bytes:
    return b"".join(_to_event(match).encode() for match in matches)


def _to_event(match: StoredMatch) -> ServerSentEvent:
    return ServerSentEvent(event="match", id=str(match.cursor), data=schemas.MatchOut.of(match).model_dump_json())
